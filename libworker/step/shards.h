/* A rank's part of a sharded state, as flat arrays. Owned by the program's thread. */
#ifndef STEP_SHARDS_H
#define STEP_SHARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "libworker/optim/optimizer.h"
#include "libworker/parallel/shard.h"

struct unit;
struct wk_context;

enum { FLAT_MAX = 1 + OPTIMIZER_STATES_MAX };

/* All flat arrays of a unit that are cut: parameters, then the optimizer's states. */
struct flats {
    float *data[FLAT_MAX];
    size_t elements[FLAT_MAX]; /* of this rank */
    int count;
    struct queue *queue[FLAT_MAX]; /* of the device that it is memory of; NULL: the host's */
};
/* No copy of them is under way then; if the device failed, what reads them fails. */
struct flats flats_of(struct unit *unit);

/* The cut of flat array `flat` in a plan of its unit: states are of trained parameters only. */
struct shard_plan flat_plan(const struct shard_plan *plan, int flat);

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
