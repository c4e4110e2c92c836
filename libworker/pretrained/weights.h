/* Weights alone, as files others read and write: a safetensors file, a folder with
 * model.safetensors, or a folder with model.safetensors.index.json and the files it names (source:
 * huggingface/transformers, "Sharded checkpoints"). Elements are F32, F16 or BF16 on disk and float
 * here.
 *
 * What is read is checked before use: headers by safetensors_parse, the index against the files.
 * `struct weights` owns its files; one thread at a time.
 */
#ifndef PRETRAINED_WEIGHTS_H
#define PRETRAINED_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/precision.h>

#include "common/base/error.h"
#include "libworker/checkpoint/safetensors.h"

enum {
    WEIGHTS_FILES_MAX = 4096,
    WEIGHTS_PATH_MAX = 1024,
    WEIGHTS_INDEX_MAX_BYTES = 64 << 20,
    WEIGHTS_CHUNK = 1 << 20, /* elements converted at a time */
};

struct weights_file {
    char name[256];
    int fd;
    bool parsed;
    struct safetensors tensors;
};

struct weights_entry {
    const struct safetensors_entry *tensor;
    int file;
};

struct weights {
    char path[WEIGHTS_PATH_MAX];
    struct weights_file *files;
    int n_files;
    struct weights_entry *entries; /* of all files, sorted by name */
    int n_entries;
    void *raw; /* WEIGHTS_CHUNK elements as they are on disk */
};

/* WK_ENOTFOUND: nothing of that kind at `path`; WK_EIO: damaged, or index and files disagree;
 * WK_EUNSUPPORTED: an element type not known; WK_ENOMEM. On failure nothing needs to be freed. */
int weights_open(const char *path, struct weights *ret, struct error *err);
void weights_close(struct weights *weights); /* zeroed memory is allowed */

/* NULL if there is no such name. */
const struct weights_entry *weights_find(const struct weights *weights, const char *name);

/* Elements [first, first + count) of a tensor. WK_EIO, WK_EUNSUPPORTED for numbers that are no
 * F32, F16 or BF16. */
struct weights_range {
    uint64_t first;
    size_t count;
};
int weights_read(const struct weights *weights, const struct weights_entry *entry,
                 struct weights_range range, float *ret, struct error *err);

/* A tensor of a new set of files. */
struct weights_tensor {
    const char *name;
    int dims;
    int64_t shape[SAFETENSORS_DIMS_MAX];
};
struct weights_write {
    const char *path; /* folder to make; must be absent or empty */
    const struct weights_tensor *tensors;
    int n_tensors;
    enum wk_format format; /* F32, F16 or BF16 */
    uint64_t file_bytes;   /* largest file, but for a tensor larger than that; 0 = no limit */
    const char *config;    /* text of config.json; NULL writes none */
    /* Elements of tensor `index` into ret; called in order, at most WEIGHTS_CHUNK at a time. */
    int (*read)(void *arg, int index, struct weights_range range, float *ret, struct error *err);
    void *arg;
};

/* Whole or absent: everything is written and synced in a folder of another name, then renamed.
 * WK_EINVAL: the folder is not empty, or a format not possible; WK_ENOMEM (disk full too), WK_EIO,
 * or what `read` gave. */
int weights_write(const struct weights_write *what, struct error *err);

#endif
