/* Checks whether the data-parallel sizes of a mesh fit a world. Used by workers, which know their
 * world, and at submit, for the worlds that a job may have. Pure; any thread. */
#ifndef SETTINGS_MESH_H
#define SETTINGS_MESH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* Ranks that libworker's collectives connect (COMM_WORLD_MAX). */
enum { SETTINGS_WORLD_MAX = 256 };

struct mesh_sizes { /* 0: not set */
    int64_t dp, dp_replicate, dp_shard;
};

/* `cut`: the strategy cuts the model (zero1, zero2, fsdp), so that there may be replicas of it.
 * `ranks` is the number left for data. E_INVALID_ARGUMENT with the size that does not fit. */
int settings_mesh(const struct mesh_sizes *sizes, bool cut, int64_t ranks, struct error *err);

#endif
