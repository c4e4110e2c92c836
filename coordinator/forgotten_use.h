/* Slots that forgotten jobs used stay charged to their tenants (model/tenant.h) over restarts: the
 * store holds a sum for each tenant, beside the jobs that it still has.
 */
#ifndef COORDINATOR_FORGOTTEN_USE_H
#define COORDINATOR_FORGOTTEN_USE_H

#include <stdint.h>

#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

/* After jobs and tenants: a sum that cannot be read as one counts as nothing. */
int forgotten_use_load(struct store *store, struct cluster *cluster, struct error *err);

/* In the transaction that forgets these jobs: the sums as they are then. The cluster stays as it is
 * until that is committed. */
int forgotten_use_put(struct store *store, struct job *const *jobs, int count, int64_t wall_ms,
                      struct error *err);

#endif
