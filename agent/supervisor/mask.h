/* Keeps secrets out of output: each occurrence of a value becomes "***", also one that comes in
 * several reads. A value of several lines counts line by line, because output is kept in lines.
 * Parts of fewer than MASK_MIN_BYTES are left alone: too much would match them by chance. What is
 * encoded, reversed or cut in pieces by the program is not found.
 *
 * A mask holds the patterns; each stream has a state of its own, with the bytes that may still
 * become an occurrence. One thread.
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
    bool first[256]; /* bytes that patterns begin with */
};

struct mask_stream { /* zeroed memory is an empty stream */
    struct buf held;
};

/* All lines of a value. False without memory: then nothing may be printed unmasked. */
bool mask_add(struct mask *mask, const char *value);
void mask_fini(struct mask *mask);
void mask_stream_fini(struct mask_stream *stream);

/* Appends to `out` what is certain of the bytes so far. */
void mask_take(const struct mask *mask, struct mask_stream *stream, const char *bytes, size_t size,
               struct buf *out);

/* Nothing follows: appends the rest. */
void mask_flush(const struct mask *mask, struct mask_stream *stream, struct buf *out);

#endif
