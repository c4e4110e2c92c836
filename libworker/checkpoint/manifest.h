/* manifest.json: the parts of a checkpoint. It is written last, so a folder without a readable one
 * is not a checkpoint. A tensor is described by its parts, in any number of files. A reader needs
 * only the parts, not the ranks or the strategy that wrote them.
 *
 * Digests are CRC-32C. Every byte of every file is under one: a shard's header under its file's,
 * its data under the parts', other files as a whole.
 *
 * A manifest owns its arena; plain data otherwise. Any thread.
 */
#ifndef CHECKPOINT_MANIFEST_H
#define CHECKPOINT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"

enum {
    MANIFEST_MAX_BYTES = 64 << 20,
    MANIFEST_FILES_MAX = 4096,
    MANIFEST_DIMS_MAX = 8,
    MANIFEST_PARTS_MAX = 4096,
    MANIFEST_MODELS_MAX = 256,
};

struct manifest_file {
    const char *name;      /* within the folder */
    uint64_t bytes;        /* whole file */
    uint64_t header_bytes; /* under `crc`; all of a file without tensors */
    uint32_t crc;
};

struct manifest_part {
    int file;
    int64_t start, count; /* elements of the flattened tensor */
    uint32_t crc;
};

struct manifest_tensor {
    const char *name;
    enum wk_dtype dtype;
    int dims;
    int64_t shape[MANIFEST_DIMS_MAX];
    struct manifest_part *parts; /* by start, without gap or overlap */
    int n_parts;
};

struct manifest {
    int64_t step;
    uint64_t generation;
    int world;
    int64_t wall_ms;
    const char *strategy;
    int mesh_dp, mesh_tp, mesh_pp, mesh_cp;
    /* Description of each model, in the order of wk_prepare, as a JSON object from the writer; NULL
     * without one. */
    const char *const *models;
    int n_models;
    struct manifest_file *files;
    int n_files;
    struct manifest_tensor *tensors; /* sorted by name once parsed */
    int n_tensors;
    struct arena arena;
};

int manifest_write(const struct manifest *manifest, struct buf *out);

/* WK_EIO: damaged, or of a version unknown to this build. File names with a slash or a leading dot
 * are refused, and so are tensors that their parts do not cover exactly. On failure nothing needs
 * to be freed. */
int manifest_parse(const char *text, size_t size, struct manifest *ret, struct error *err);
void manifest_fini(struct manifest *manifest);

/* In a parsed manifest; NULL if there is no such name. */
const struct manifest_tensor *manifest_find(const struct manifest *manifest, const char *name);

/* Elements of a tensor. */
int64_t manifest_count(const struct manifest_tensor *tensor);

/* Bytes of all files together. */
uint64_t manifest_bytes(const struct manifest *manifest);

#endif
