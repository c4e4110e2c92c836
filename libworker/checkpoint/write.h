/* Writing a checkpoint (folder.h), alone or as one of the ranks that write it together. Any thread;
 * one writer per folder at a time.
 */
#ifndef CHECKPOINT_WRITE_H
#define CHECKPOINT_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/numbers.h"

struct checkpoint_about {
    uint64_t generation;
    int world;
    int mesh_dp;
    const char *strategy;
    /* Ranks with parts write a shard each; zeroed: one rank writes all. */
    int rank, shards;
    uint32_t ticket;           /* the same on all that write, another for each attempt */
    const char *const *models; /* [n_models], manifest.h; they outlive the saver */
    int n_models;
};

/* The facts for the decision whether a checkpoint counts. */
struct checkpoint_claim {
    int64_t step;
    uint64_t generation;
    int world;
    uint64_t bytes; /* 0 in `prepare` */
    const char *path;
};

/* `prepare` is called before the manifest is written, `done` after the rename. A refusal of either
 * ends the write with its code, and the previous content is restored. If `done` returned
 * WK_EUNAVAILABLE or WK_ETIMEOUT it is unknown whether the checkpoint counts, and it stays. NULL
 * members agree. They run on the writing thread. */
struct checkpoint_gate {
    void *arg;
    int (*prepare)(void *arg, const struct checkpoint_claim *claim, struct error *err);
    int (*done)(void *arg, const struct checkpoint_claim *claim, struct error *err);
};

struct checkpoint_write {
    const char *dir; /* of all checkpoints; made if absent */
    const struct checkpoint_tensor *tensors;
    int n_tensors;
    const struct train_numbers *numbers;
    const struct checkpoint_about *about;
    const struct checkpoint_gate *gate;
    /* Asked while shards of other ranks are waited for; NULL: never. */
    bool (*cancelled)(void *arg);
    void *cancelled_arg;
};

/* WK_ENOMEM (disk full), WK_EIO, WK_ETIMEOUT (a rank's shard did not arrive), WK_EABORT
 * (cancelled), or the gate's code: then nothing changed. A checkpoint of the same step is replaced.
 * On all ranks but 0 success means that their shard is written. */
int checkpoint_write(const struct checkpoint_write *what, struct error *err);

enum { CHECKPOINT_SHARDS_MAX = 4000, CHECKPOINT_SHARD_WAIT_MS = 10 * 60 * 1000 };

#endif
