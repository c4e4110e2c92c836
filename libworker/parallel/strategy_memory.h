/* Where a strategy keeps a model on this rank. Plain data that a table's `open` fills in; constant
 * until its `close`. The memory belongs to the table. */
#ifndef PARALLEL_STRATEGY_MEMORY_H
#define PARALLEL_STRATEGY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "libworker/optim/optimizer.h"
#include "libworker/parallel/shard.h"

struct param;

/* What this rank's optimizer updates: a table of parameters over `count` elements. Frozen ones
 * follow in `data`, up to `held`. */
struct strategy_range {
    const struct param *params;
    int n_params;
    size_t count, held;
    float *data, *grads; /* [held], [count] */
    uint16_t *low;       /* copy of data that the optimizer's steps write too, or NULL */
    struct queue *queue; /* of the device that data is memory of; NULL: the host's */
    struct optimizer_masters masters; /* `host`: data is for steps to bring to the device */
};

struct strategy_memory {
    void *self; /* of the table's functions */
    struct strategy_range range;
    const struct shard_plan *plan; /* NULL: every rank has the whole model */
};

#endif
