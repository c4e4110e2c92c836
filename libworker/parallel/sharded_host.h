/* A sharded model with masters in the host's memory (masters.h). A rank's rows of the narrow
 * parameters then stay on the device from one step to the next. Updates write them, piece by piece,
 * and gathers send them as they are:
 *
 *     master, pinned ──piece──► device ──► own row, narrow ──gather──► unit
 *                                     └──► own pieces of vectors ──sum──► vectors
 *
 * Part of sharded.h, on its thread. Without such masters only fini is used.
 */
#ifndef PARALLEL_SHARDED_HOST_H
#define PARALLEL_SHARDED_HOST_H

#include "libworker/optim/optimizer.h"
#include "libworker/parallel/sharded.h"

/* The master, pages of the host for what sharded_low_show gathers, and a unit in float on the
 * device. After the plan. WK_ENOMEM. */
int sharded_host_init(struct sharded *s, struct error *err);
void sharded_host_fini(struct sharded *s);

/* What updates do with pieces of it. */
struct optimizer_masters sharded_host_masters(struct sharded *s);

/* Keep this rank's row of a unit with initial values, which is in sharded_floats. Waits. */
void sharded_host_keep(struct sharded *s, int unit);

/* The master was set by other means than updates: bring the rows up to date. Waits. The device's
 * failure. */
int sharded_host_renew(struct sharded *s);

/* Gather the master of a unit into the host's pages. Collective. */
int sharded_host_show(struct sharded *s, int unit);

#endif
