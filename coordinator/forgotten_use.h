/* Slots used by forgotten jobs stay charged to their tenants (model/tenant.h) over restarts: the
 * store has a sum for each tenant, in addition to its remaining jobs. */
#ifndef COORDINATOR_FORGOTTEN_USE_H
#define COORDINATOR_FORGOTTEN_USE_H

#include <stdint.h>

#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

/* Call it after loading jobs and tenants. An invalid sum counts as 0. */
int forgotten_use_load(struct store *store, struct cluster *cluster, struct error *err);

/* Write the new sums, in the transaction that forgets these jobs. The cluster stays as it is; the
 * caller charges the tenants after the commit. */
int forgotten_use_put(struct store *store, struct job *const *jobs, int count, int64_t wall_ms,
                      struct error *err);

#endif
