/* A job's committed checkpoints, as far as the coordinator remembers them. */
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H

#include <stdint.h>

enum {
    JOB_CHECKPOINTS_MAX = 64, /* kept in memory per job; older ones are forgotten, not deleted */
    PATH_LENGTH_MAX = 1023,
};

struct checkpoint {
    uint64_t step, generation;
    char path[PATH_LENGTH_MAX + 1];
    int64_t wall_ms, size_bytes;
    int world;
};

#endif
