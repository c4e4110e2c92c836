/* Collectives of a sharded model where the host cannot read its memory, by way of copies on the
 * host (stage.h). A unit has at most one copy of its parameters and one of its gradients, each for
 * one collective:
 *
 *      parameters   row fetched, gathered, unit sent once the device has released the last one
 *      gradients    unit fetched, summed into this rank's row, row sent
 *
 * Without them (sharded_staged) collectives work on the arenas themselves. Part of sharded.h.
 */
#ifndef PARALLEL_SHARDED_STAGE_H
#define PARALLEL_SHARDED_STAGE_H

#include "libworker/parallel/sharded.h"

bool sharded_staged(const struct sharded *s);

/* The queue that may write this rank's row of a unit for a gather. */
struct queue *sharded_row_queue(struct sharded *s, int unit);

/* Start gathering a unit's rows of `type` from `row`, this rank's in device memory; and once that
 * has been waited for, send the unit to `to`. */
int sharded_stage_gather(struct sharded *s, int unit, const void *row, enum wk_dtype type,
                         struct wk_work **ret_work);
void sharded_stage_gathered(struct sharded *s, int unit, void *to, enum wk_dtype type);

/* Fetch a unit's gradients, whichever are summed; wait for that; and send its sum. */
int sharded_stage_grads(struct sharded *s, int unit);
int sharded_stage_ready(struct sharded *s, int unit);
void sharded_stage_summed(struct sharded *s, int unit);

/* Where a collective finds a unit's gradients in float, and those in 2 bytes: each [elements]. */
float *sharded_floats(const struct sharded *s, int unit);
uint16_t *sharded_halves(const struct sharded *s, int unit);

/* Wait for all copies and forget them. */
void sharded_stage_drain(struct sharded *s);

#endif
