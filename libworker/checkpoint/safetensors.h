/* The safetensors file format: 8 bytes of little-endian header size, a JSON header, then the
 * tensors' bytes without gaps. Source: huggingface/safetensors README, "Format".
 *
 * safetensors_parse accepts untrusted bytes: sizes, counts, names and offsets are bounded and
 * checked before they are used. A parsed header owns its arena; plain data otherwise. Any thread.
 */
#ifndef CHECKPOINT_SAFETENSORS_H
#define CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"

enum {
    SAFETENSORS_HEADER_MAX_BYTES = 64 << 20,
    SAFETENSORS_TENSORS_MAX = 1 << 17,
    SAFETENSORS_DIMS_MAX = 8,
    SAFETENSORS_NAME_MAX = 512,
    SAFETENSORS_ALIGN_BYTES = 64, /* where our writer starts the data; readers need only 8 */
};

struct safetensors_entry {
    const char *name;
    enum wk_dtype dtype;
    int dims;
    int64_t shape[SAFETENSORS_DIMS_MAX];
    uint64_t offset; /* of its first byte in the file */
    uint64_t bytes;
};

struct safetensors {
    struct safetensors_entry *entries; /* [count], in order of the file */
    int count;
    struct arena arena;
};

/* Size of a file's header, including its 8 bytes of size, from the file's first 8 bytes. WK_EIO if
 * that is impossible in a file of `file_bytes`. */
int safetensors_header_bytes(const void *first8, uint64_t file_bytes, size_t *ret,
                             struct error *err);

/* Parse `size` = safetensors_header_bytes bytes of a file of `file_bytes`. WK_EIO: damaged or not
 * this format; WK_EUNSUPPORTED: a type we have no name for; WK_ENOMEM. On failure nothing needs to
 * be freed. */
int safetensors_parse(const void *header, size_t size, uint64_t file_bytes, struct safetensors *ret,
                      struct error *err);
void safetensors_fini(struct safetensors *safetensors);

/* The entry of this name, or NULL. */
const struct safetensors_entry *safetensors_find(const struct safetensors *safetensors,
                                                 const char *name);

/* Append the header (size included) of a file with `entries[count]` in this order; sets their
 * offsets. WK_ENOMEM. */
int safetensors_write_header(struct safetensors_entry *entries, int count, struct buf *out);

#endif
