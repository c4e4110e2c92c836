/* A sequence of tokens in memory or in a mapped file (worker/data.h), or rows of a program
 * (worker/rows.h). Owned by its opener; immutable, so any number of threads may read. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <worker/data.h>
#include <worker/error.h>
#include <worker/rows.h>

#include "common/base/error.h"

enum { LLMC_HEADER_BYTES = 1024, LLMC_MAGIC_U16 = 20240520, LLMC_MAGIC_U32 = 20240801 };

struct pack;
struct rows;

struct wk_source {
    struct rows *rows;           /* NULL: tokens, with what follows `count` */
    struct pack *pack;           /* what the rows are made of, or NULL */
    const unsigned char *tokens; /* first token, within map or copy */
    int64_t count;               /* tokens or rows */
    int width;                   /* bytes of a token: 1, 2 or 4 */
    void *map;                   /* NULL when in memory */
    size_t map_bytes;
    void *copy;
};

int source_open(const char *path, enum wk_source_format format, struct wk_source **ret,
                struct error *err);
int source_bytes(const void *data, size_t size, struct wk_source **ret, struct error *err);
int source_rows(const struct wk_row_options *options, struct wk_source **ret, struct error *err);

/* Distinguishes two sources of one count, by a few of their bytes (digest_pieces, rows_digest). */
uint64_t source_digest(const struct wk_source *source);

/* Tokens first…first+count-1 into ret[count]; the range must be inside a source of tokens. A 32-bit
 * token beyond INT32_MAX becomes negative, which every model refuses. */
void source_read(const struct wk_source *source, int64_t first, int64_t count, int32_t *ret);

#endif
