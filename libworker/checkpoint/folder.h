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
 * write.h writes one, load.h reads one, list.h has the names of the folders and removes them. What
 * is in a device's memory passes through the host in parts (device/reach.h), on the device's
 * thread.
 */
#ifndef CHECKPOINT_FOLDER_H
#define CHECKPOINT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

struct queue;

enum { CHECKPOINT_PATH_MAX = 1024, CHECKPOINT_NAME_MAX = 128, CHECKPOINT_DIMS_MAX = 4 };

struct checkpoint_tensor {
    char name[CHECKPOINT_NAME_MAX]; /* "model.wte.weight", "optimizer.exp_avg.wte.weight" */
    enum wk_dtype dtype;
    int dims;
    int64_t shape[CHECKPOINT_DIMS_MAX];
    int64_t first;       /* element of the flattened tensor that `data` begins with */
    void *data;          /* borrowed; read when writing, written when loading */
    size_t bytes;        /* of data; less than the tensor if others have the rest, or 0 */
    struct queue *queue; /* of the device that `data` is memory of; NULL: the host's */
};

#endif
