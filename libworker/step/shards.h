/* A rank's part of a sharded state, as flat arrays. Owned by the program's thread. */
#ifndef STEP_SHARDS_H
#define STEP_SHARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "libworker/optim/optimizer.h"

struct unit;
struct wk_context;

enum { FLAT_MAX = 1 + OPTIMIZER_STATES_MAX };

/* All flat arrays of a unit that are cut: parameters, then the optimizer's states. strategy_range
 * has their length. */
struct flats {
    float *data[FLAT_MAX];
    int count;
    struct queue *queue; /* of the device that they are memory of; NULL: the host's */
};
struct flats flats_of(struct unit *unit);

/* Zeroed memory for a shard that is being moved. Offloaded state uses the offload folder, because
 * memory may be too small; if that disk is full, memory. */
struct shard_buffer {
    float *data; /* NULL: none */
    size_t count;
    bool mapped;
};
int shard_buffer_new(const struct wk_context *ctx, size_t count, struct shard_buffer *ret,
                     struct error *err);
void shard_buffer_free(struct shard_buffer *buffer); /* zeroed memory is allowed */

#endif
