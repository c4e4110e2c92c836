/* A sequence of tokens in memory or in a mapped file (see worker/data.h). Owned by its opener;
 * immutable, so any number of threads may read. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <worker/data.h>
#include <worker/error.h>

#include "common/base/error.h"

enum { LLMC_HEADER_BYTES = 1024, LLMC_MAGIC_U16 = 20240520, LLMC_MAGIC_U32 = 20240801 };

struct wk_source {
    const unsigned char *tokens; /* first token, within map or copy */
    int64_t count;
    int width; /* bytes of a token: 1, 2 or 4 */
    void *map; /* NULL when in memory */
    size_t map_bytes;
    void *copy;
};

int source_open(const char *path, enum wk_source_format format, struct wk_source **ret,
                struct error *err);
int source_bytes(const void *data, size_t size, struct wk_source **ret, struct error *err);

/* Distinguishes two sources of one length: a digest over at most SOURCE_DIGEST_PIECES pieces of
 * SOURCE_DIGEST_BYTES, spread evenly from the first to the last. It costs the same for any file.
 * Sources that differ only between the pieces have the same digest. */
enum { SOURCE_DIGEST_PIECES = 64, SOURCE_DIGEST_BYTES = 4096 };
uint64_t source_digest(const struct wk_source *source);

/* Tokens first…first+count-1 into ret[count]; the range must be inside. A 32-bit token beyond
 * INT32_MAX becomes negative, which every model refuses. */
void source_read(const struct wk_source *source, int64_t first, int64_t count, int32_t *ret);

#endif
