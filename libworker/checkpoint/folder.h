/* A checkpoint as a folder: step-00000200/ contains rank-00000-of-00001.safetensors, state.json and
 * manifest.json. It is whole or absent, in these steps:
 *
 *   1. write and sync everything in a folder with a temporary name
 *   2. ask the gate whether this generation may still commit
 *   3. write the manifest
 *   4. rename the folder, or exchange it with an older one of the same step
 *
 * A crash leaves only names that start with a dot; the next writer removes them.
 *
 * Under data parallelism every rank has the same state and rank 0 writes all of it as one shard. A
 * state that is cut over ranks is written by all. Each puts its shard and a note of its content
 * into the temporary folder, and rank 0 waits for all notes and makes the manifest. checkpoint_load
 * accepts any number of shards and reads only the requested bytes.
 *
 * Any thread; one writer per folder at a time.
 */
#ifndef CHECKPOINT_FOLDER_H
#define CHECKPOINT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

#include "common/base/error.h"
#include "libworker/checkpoint/numbers.h"

enum { CHECKPOINT_PATH_MAX = 1024, CHECKPOINT_NAME_MAX = 128, CHECKPOINT_DIMS_MAX = 4 };

struct checkpoint_tensor {
    char name[CHECKPOINT_NAME_MAX]; /* "model.wte.weight", "optimizer.exp_avg.wte.weight" */
    enum wk_dtype dtype;
    int dims;
    int64_t shape[CHECKPOINT_DIMS_MAX];
    int64_t first; /* element of the flattened tensor that `data` begins with */
    void *data;    /* borrowed; read when writing, written when loading */
    size_t bytes;  /* of data; less than the tensor if others have the rest, or 0 */
};

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
 * On ranks other than 0 success means that their shard is written. */
int checkpoint_write(const struct checkpoint_write *what, struct error *err);

enum { CHECKPOINT_SHARDS_MAX = 4000, CHECKPOINT_SHARD_WAIT_MS = 10 * 60 * 1000 };

/* Fill every tensor, or the part of it that is asked for, from the checkpoint at `path`, checking
 * each digest. WK_ENOTFOUND: no checkpoint there; WK_EIO: damaged; WK_EMISMATCH: of another model.
 * On failure the tensors' content is undefined. */
int checkpoint_load(const char *path, const struct checkpoint_tensor *tensors, int n_tensors,
                    struct train_numbers *ret_numbers, struct error *err);

/* Its numbers alone. WK_ENOTFOUND, WK_EIO. */
int checkpoint_numbers(const char *path, struct train_numbers *ret, struct error *err);

/* A checkpoint as a stream: tensors by their number in the manifest, a range at a time, digests
 * checked. One thread. Errors as checkpoint_load. */
struct checkpoint_reader;
struct manifest;
int checkpoint_open(const char *path, struct checkpoint_reader **ret, struct error *err);
void checkpoint_close(struct checkpoint_reader *reader); /* NULL is fine */
const struct manifest *checkpoint_manifest(const struct checkpoint_reader *reader);

struct checkpoint_range {
    int tensor;
    int64_t first, count;
};
int checkpoint_read(struct checkpoint_reader *reader, struct checkpoint_range range, void *ret,
                    struct error *err);

/* Every byte of the checkpoint against its digests, without keeping anything. */
int checkpoint_verify(const char *path, struct error *err);

/* Steps of the folders in `dir` that have a manifest, ascending; malloc'd, the caller frees. 0 of
 * them if `dir` is absent. A folder that may not be searched is one of them: loading it says why
 * it cannot be read. */
int checkpoint_list(const char *dir, int64_t **ret_steps, int *ret_count, struct error *err);

/* "<dir>/step-00000200". WK_EINVAL if too long. */
int checkpoint_path(const char *dir, int64_t step, char ret[CHECKPOINT_PATH_MAX]);

/* The step in a path of that form, or -1. */
int64_t checkpoint_step_of(const char *path);

/* Remove the folder of one checkpoint; what is no step- folder is refused. Absent is fine. */
int checkpoint_remove(const char *path, struct error *err);

/* The name of an unfinished write, which no other write has. WK_EINVAL if too long. */
int checkpoint_temporary(const char *dir, int64_t step, uint64_t generation, uint32_t ticket,
                         char ret[CHECKPOINT_PATH_MAX]);

/* Path of a committed checkpoint while another replaces it, on file systems that cannot exchange
 * two folders. WK_EINVAL if too long. */
int checkpoint_aside(const char *dir, int64_t step, char ret[CHECKPOINT_PATH_MAX]);

/* Remove what unfinished writes of this and older generations left in `dir`, except the folder
 * `keep`. A committed checkpoint that was set aside and not replaced is restored. */
int checkpoint_sweep(const char *dir, uint64_t generation, const char *keep, struct error *err);

/* That no other program on this machine writes to `dir` until *ret_fd, the caller's, is closed (a
 * lock of flock(2) on the folder: gone with the process). WK_ESTATE: one does. Where the
 * folder or its file system knows no locks *ret_fd is -1, and nobody is kept away. */
int checkpoint_lock(const char *dir, int *ret_fd, struct error *err);

/* Of the checkpoints up to step `newest`, the one just written, remove all but the last `keep`; 0
 * keeps all. Later ones belong to another run, or to steps before this run went back: they stay,
 * and do not count. */
int checkpoint_prune(const char *dir, int64_t newest, int keep, struct error *err);

#endif
