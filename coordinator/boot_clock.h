/* Monotonic times are on the clock of their boot; wall time relates two boots. Loop thread only. */
#ifndef COORDINATOR_BOOT_CLOCK_H
#define COORDINATOR_BOOT_CLOCK_H

#include <stdint.h>

#include "common/base/error.h"
#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

/* After a reboot, or a jump of the wall clock: move the times of active jobs to this boot's clock,
 * and store them. `offset_ms` is the wall clock minus the monotonic one. After a failure load the
 * cluster again before the next call. */
int boot_clock_adjust(struct store *store, struct cluster *cluster, int64_t offset_ms,
                      struct error *err);

#endif
