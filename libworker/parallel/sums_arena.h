/* Memory of a model's place that collectives work on: zeros at first. Where the host reads the
 * device's memory it is an arena of the communicator (worker/comm.h), which the ranks use in place.
 * Elsewhere it is device memory alone, of which a collective gets a copy in pinned memory. Owned by
 * the struct around it; the queue's thread. */
#ifndef PARALLEL_SUMS_ARENA_H
#define PARALLEL_SUMS_ARENA_H

#include <stddef.h>

#include "common/base/error.h"

struct queue;
struct wk_arena;

struct sums_arena {
    struct queue *queue; /* borrowed */
    float *data;         /* [count] */
    size_t count;
    struct wk_arena *shared; /* NULL: device memory alone */
};

int sums_arena_init(struct sums_arena *arena, struct queue *queue, size_t count,
                    struct error *err); /* WK_ENOMEM */

/* Zeroed memory is allowed. Its work must have been waited for. */
void sums_arena_fini(struct sums_arena *arena);

#endif
