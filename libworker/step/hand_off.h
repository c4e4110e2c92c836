/* Leaving ranks send the parts that no other rank has to staying ranks, in turn. Those keep them
 * until the next generation has cut the state again. Owned by the program's thread. */
#ifndef STEP_HAND_OFF_H
#define STEP_HAND_OFF_H

#include <stdint.h>

#include "libworker/checkpoint/numbers.h"
#include "libworker/step/shards.h"

/* A copy of one part of all units, each array padded to the plan's shard. */
struct handoff {
    int64_t part;
    struct shard_buffer buffers[NUMBERS_UNITS_MAX][FLAT_MAX];
};

/* Part `part` of a rank that left, kept by this rank; or NULL. */
const struct handoff *handoff_find(const struct wk_context *ctx, int64_t part);
void handoffs_clear(struct wk_context *ctx); /* they are in the new cut, or useless now */

/* leaves[world] marks the leaving ranks. It is the same on all ranks, and at least one rank stays.
 * Collective, between two steps.
 *
 * If too many ranks leave, parts are missing afterwards and the members return to a checkpoint.
 * WK_ENOMEM; WK_EPEER and similar codes.
 */
int hand_off(struct wk_context *ctx, const int32_t *leaves, struct error *err);

#endif
