/* Reading a checkpoint (folder.h): all of it, its numbers, or as a stream. Any thread. */
#ifndef CHECKPOINT_LOAD_H
#define CHECKPOINT_LOAD_H

#include <stdint.h>

#include "common/base/error.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/numbers.h"

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

#endif
