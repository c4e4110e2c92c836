/* Whether the data-parallel sizes of a mesh go into a world: for workers, who know their world, and
 * for whoever takes a job, who knows which worlds it may have. Pure; any thread.
 */
#ifndef SETTINGS_MESH_H
#define SETTINGS_MESH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* Ranks that libworker's collectives connect (COMM_WORLD_MAX). */
enum { SETTINGS_WORLD_MAX = 256 };

struct mesh_sizes { /* 0: not said */
    int64_t dp, dp_replicate, dp_shard;
};

/* `cut`: the strategy cuts the model (zero1, zero2, fsdp), so that there may be replicas of it.
 * `ranks` are those left for data. E_INVALID_ARGUMENT with the size that does not fit. */
int settings_mesh(const struct mesh_sizes *sizes, bool cut, int64_t ranks, struct error *err);

#endif
