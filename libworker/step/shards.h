/* A rank's parts of a sharded state, as flat arrays: its own part and, between two generations,
 * parts of ranks that have left. Private to step/. */
#ifndef STEP_SHARDS_H
#define STEP_SHARDS_H

#include "libworker/step/context.h"

enum { FLAT_MAX = 1 + OPTIMIZER_STATES_MAX };

/* All flat arrays of a unit that are cut: parameters, then the optimizer's states. strategy_range
 * has their length. */
struct flats {
    float *data[FLAT_MAX];
    int count;
};
struct flats flats_of(struct unit *unit);

/* Zeroed memory for a shard that is being moved. Offloaded state uses the offload folder, because
 * memory may be too small; if that disk is full, memory. */
struct room {
    float *data; /* NULL: none */
    size_t count;
    bool mapped;
};
int room_new(const struct wk_context *ctx, size_t count, struct room *ret, struct error *err);
void room_free(struct room *room); /* zeroed memory is allowed */

/* A copy of one part of all units, each array padded to the plan's shard. */
struct handed {
    int64_t part;
    struct room rooms[NUMBERS_UNITS_MAX][FLAT_MAX];
};

/* Part `part` of a rank that left, kept by this rank; or NULL. */
const struct handed *handed_find(const struct wk_context *ctx, int64_t part);
void handed_clear(struct wk_context *ctx); /* they are in the new cut, or useless now */

/* Leaving ranks send the parts that no other rank has to staying ranks, in turn. Those keep them
 * until the next generation has cut the state again. leaves[world] marks the leaving ranks. It is
 * the same on all ranks, and at least one rank stays. Collective, between two steps.
 *
 * If too many ranks leave, parts are missing afterwards and the members return to a checkpoint.
 * WK_ENOMEM; WK_EPEER and similar codes.
 */
int hand_over(struct wk_context *ctx, const int32_t *leaves, struct error *err);

#endif
