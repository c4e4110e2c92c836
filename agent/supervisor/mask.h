/* Removes secrets from output: each occurrence of a value becomes "***", also one that arrives in
 * several reads. A value with several lines is matched line by line, because output is stored in
 * lines. Parts shorter than MASK_MIN_BYTES are ignored, because they would match by chance too
 * often. A value that the program encodes, reverses or splits is not found.
 *
 * A mask has the patterns. Each stream has its own state with the bytes that may still become an
 * occurrence. One thread.
 */
#ifndef SUPERVISOR_MASK_H
#define SUPERVISOR_MASK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"

enum { MASK_MIN_BYTES = 6 };

struct mask { /* zeroed memory masks nothing */
    struct mask_pattern {
        char *text;
        size_t size;
    } * patterns; /* longest first */
    size_t count;
    bool first[256]; /* first bytes of patterns */
};

struct mask_stream { /* zeroed memory is an empty stream */
    struct buf held;
};

/* Add all lines of a value. False if memory is out: then nothing may be printed unmasked. */
bool mask_add(struct mask *mask, const char *value);
void mask_fini(struct mask *mask);
void mask_stream_fini(struct mask_stream *stream);

/* Append to `out` the part of the bytes so far that is decided. */
void mask_append(const struct mask *mask, struct mask_stream *stream, const char *bytes,
                 size_t size, struct buf *out);

/* Nothing follows: append the rest. */
void mask_flush(const struct mask *mask, struct mask_stream *stream, struct buf *out);

#endif
