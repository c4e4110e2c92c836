/* What the ranks of a sharded state hold of it, as flat arrays: their own part and, for as long as
 * members are between two generations, parts of ranks that have left. Private to step/.
 */
#ifndef STEP_SHARDS_H
#define STEP_SHARDS_H

#include "libworker/step/context.h"

enum { FLAT_MAX = 1 + OPTIMIZER_STATES_MAX };

/* Everything flat of a unit that a rank holds a part of: parameters, then the optimizer's states.
 * Each has as many elements as strategy_range says. */
struct flats {
    float *data[FLAT_MAX];
    int count;
};
struct flats flats_of(struct unit *unit);

/* Zeroed room for a shard on its way. Where state is offloaded it lies there too, as there may be
 * no memory for it; in memory if that disk is full. */
struct room {
    float *data; /* NULL: none */
    size_t count;
    bool mapped;
};
int room_new(const struct wk_context *ctx, size_t count, struct room *ret, struct error *err);
void room_free(struct room *room); /* takes zeroed memory */

/* A copy of one part of all units, each array padded to the plan's shard. */
struct handed {
    int64_t part;
    struct room rooms[NUMBERS_UNITS_MAX][FLAT_MAX];
};

/* The part `part` of a leaver that this rank keeps, or NULL. */
const struct handed *handed_find(const struct wk_context *ctx, int64_t part);
void handed_clear(struct wk_context *ctx); /* they are in the new cut, or of no use any more */

/* Ranks that leave give the parts that nobody else has to those who stay, in turn; they keep them
 * until the next generation has cut the state anew. leaves[world]: who does, the same on all ranks,
 * and not all of them.
 * Collective, between two steps. When too many leave for those who stay, parts are missing
 * afterwards, and the members go back to a checkpoint. WK_ENOMEM; WK_EPEER and the like. */
int hand_over(struct wk_context *ctx, const int32_t *leaves, struct error *err);

#endif
