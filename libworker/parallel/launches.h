/* What a strategy enqueues besides an update's launches: their names and their arguments. Devices
 * with kernels of their own find them by name (device/device.h) and do what the functions in
 * elements.c, narrow.c and sharded_grads.c do with them. Pointers are to memory of the queue's
 * device, but `kernels` and `plan`, which are of the host. One thread.
 *
 *     name                   arguments       does
 *     PARALLEL_SCALE         elements_args   to[i] *= factor
 *     PARALLEL_ADD           elements_args   to[i] += from[i]
 *     PARALLEL_NARROW        elements_args   low[i] = from[i] in how.type
 *     PARALLEL_WIDEN         elements_args   to[i] = low[i]
 *     PARALLEL_ADD_NARROW    elements_args   low[i] += from[i], rounded once
 *     PARALLEL_ADD_WIDENED   elements_args   to[i] += low[i]
 *     PARALLEL_NARROW_MODEL  narrow_args     out[i] = from.x[i] in type, the first ones by chance
 *     PARALLEL_COMPACT       compact_args    each unit's row `part` moves to the begin of the arena
 */
#ifndef PARALLEL_LAUNCHES_H
#define PARALLEL_LAUNCHES_H

#include "libworker/parallel/elements.h"
#include "libworker/parallel/narrow.h"
#include "libworker/parallel/shard.h"

#define PARALLEL_SCALE        "scale gradients"
#define PARALLEL_ADD          "add gradients"
#define PARALLEL_NARROW       "narrow gradients"
#define PARALLEL_WIDEN        "widen gradients"
#define PARALLEL_ADD_NARROW   "add narrow gradients"
#define PARALLEL_ADD_WIDENED  "add widened gradients"
#define PARALLEL_NARROW_MODEL "narrow parameters"
#define PARALLEL_COMPACT      "move sums together"

/* Those that strategies of some settings enqueue. */
#define PARALLEL_LAUNCHES                                                                          \
    {                                                                                              \
        PARALLEL_SCALE, PARALLEL_ADD, PARALLEL_NARROW, PARALLEL_WIDEN, PARALLEL_ADD_NARROW,        \
            PARALLEL_ADD_WIDENED, PARALLEL_NARROW_MODEL, PARALLEL_COMPACT                          \
    }

struct elements_args {
    const struct kernel_table *kernels;
    struct elements_pieces how;
    float *to;
    const float *from;
    uint16_t *low;
    size_t count;
    float factor;
};

struct narrow_args {
    const struct kernel_table *kernels;
    struct narrow_source from;
    uint16_t *out;
    uint64_t noise; /* of wk_narrow_stochastic */
    enum wk_dtype type;
    size_t by_chance; /* the first ones; the others are rounded to nearest */
};

/* A row moves to a place at or before its own; rows in the order of units. */
struct compact_args {
    const struct shard_plan *plan;
    size_t part, element; /* bytes of one */
    char *arena;
};

#endif
