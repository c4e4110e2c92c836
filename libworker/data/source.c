#include "libworker/data/source.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libworker/data/digest.h"
#include "libworker/data/pack.h"
#include "libworker/data/rows.h"

static uint32_t little32(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static int plain(struct wk_source *source, int width, struct error *err)
{
    if (source->map_bytes % (size_t)width)
        return error_set(err, WK_EINVAL, "%zu bytes are no whole number of %d-byte tokens",
                         source->map_bytes, width);
    source->tokens = source->map;
    source->width = width;
    source->count = (int64_t)(source->map_bytes / (size_t)width);
    return 0;
}

static bool has_header(const struct wk_source *source)
{
    if (source->map_bytes < LLMC_HEADER_BYTES)
        return false;
    uint32_t magic = little32(source->map);
    return magic == LLMC_MAGIC_U16 || magic == LLMC_MAGIC_U32;
}

static int with_header(struct wk_source *source, struct error *err)
{
    if (!has_header(source))
        return error_set(err, WK_EINVAL, "no llm.c header at its start");
    const unsigned char *bytes = source->map;
    source->width = little32(bytes) == LLMC_MAGIC_U16 ? 2 : 4;
    source->count = little32(bytes + 8);
    source->tokens = bytes + LLMC_HEADER_BYTES;
    size_t held = (source->map_bytes - LLMC_HEADER_BYTES) / (size_t)source->width;
    if ((uint64_t)source->count > held)
        return error_set(err, WK_EINVAL, "its header has %lld tokens, the file has %zu",
                         (long long)source->count, held);
    return 0;
}

static int interpret(struct wk_source *source, enum wk_source_format format, struct error *err)
{
    switch (format) {
    case WK_SOURCE_AUTO:
        return has_header(source) ? with_header(source, err) : plain(source, 1, err);
    case WK_SOURCE_TEXT:
        return plain(source, 1, err);
    case WK_SOURCE_U16:
        return plain(source, 2, err);
    case WK_SOURCE_U32:
        return plain(source, 4, err);
    case WK_SOURCE_LLMC:
        return with_header(source, err);
    }
    return error_set(err, WK_EINVAL, "%d is no format", (int)format);
}

static int map_file(struct wk_source *source, const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "it cannot be opened");
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st))
        rc = error_errno(err, errno, "it cannot be looked at");
    else if (!S_ISREG(st.st_mode) || st.st_size == 0)
        rc = error_set(err, WK_EINVAL, "it is %s", st.st_size ? "no file" : "empty");
    if (!rc) {
        source->map_bytes = (size_t)st.st_size;
        source->map = mmap(NULL, source->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (source->map == MAP_FAILED) {
            source->map = NULL;
            rc = error_errno(err, errno, "it cannot be mapped");
        }
    }
    close(fd);
    return rc;
}

int source_open(const char *path, enum wk_source_format format, struct wk_source **ret,
                struct error *err)
{
    if (!path)
        return error_set(err, WK_EINVAL, "data without a path");
    struct wk_source *source = calloc(1, sizeof(*source));
    if (!source)
        return error_set(err, WK_ENOMEM, "no memory for data %s", path);
    int rc = map_file(source, path, err);
    if (!rc)
        rc = interpret(source, format, err);
    if (rc) {
        wk_source_free(source);
        (void)error_wrap(err, "data %s", path);
        return rc;
    }
    *ret = source;
    return 0;
}

int source_bytes(const void *data, size_t size, struct wk_source **ret, struct error *err)
{
    if (!size)
        return error_set(err, WK_EINVAL, "a text without a byte has no samples");
    if (!data)
        return error_set(err, WK_EINVAL, "the text of %zu bytes is NULL", size);
    struct wk_source *source = calloc(1, sizeof(*source));
    if (source)
        source->copy = malloc(size);
    if (!source || !source->copy) {
        wk_source_free(source);
        return error_set(err, WK_ENOMEM, "no memory for %zu bytes of text", size);
    }
    memcpy(source->copy, data, size);
    source->tokens = source->copy;
    source->width = 1;
    source->count = (int64_t)size;
    *ret = source;
    return 0;
}

int source_rows(const struct wk_row_options *options, struct wk_source **ret, struct error *err)
{
    struct wk_source *source = calloc(1, sizeof(*source));
    if (!source)
        return error_set(err, WK_ENOMEM, "no memory for a source of rows");
    struct wk_row_options packed;
    int rc = options && options->packing ? pack_new(options, &source->pack, &packed, err) : 0;
    if (source->pack)
        options = &packed;
    if (!rc)
        rc = rows_new(options, &source->rows, err);
    if (rc) {
        wk_source_free(source);
        return rc;
    }
    source->count = options->count;
    *ret = source;
    return 0;
}

uint64_t source_digest(const struct wk_source *source)
{
    if (source->pack)
        return pack_digest(source->pack);
    return source->rows ? rows_digest(source->rows)
                        : digest_pieces(DIGEST_OF_NOTHING, source->tokens,
                                        (size_t)source->count * (size_t)source->width);
}

void source_read(const struct wk_source *source, int64_t first, int64_t count, int32_t *ret)
{
    assert(!source->rows && first >= 0 && count >= 0 && count <= source->count - first);
    const unsigned char *at = source->tokens + first * source->width;
    if (source->width == 1) {
        for (int64_t i = 0; i < count; i++)
            ret[i] = at[i];
    } else if (source->width == 2) {
        for (int64_t i = 0; i < count; i++)
            ret[i] = at[2 * i] | at[2 * i + 1] << 8;
    } else {
        for (int64_t i = 0; i < count; i++)
            ret[i] = (int32_t)little32(at + 4 * i);
    }
}

int64_t wk_source_count(const struct wk_source *source)
{
    return source->count;
}

void wk_source_free(struct wk_source *source)
{
    if (!source)
        return;
    if (source->map)
        munmap(source->map, source->map_bytes);
    free(source->copy);
    free(source->rows);
    pack_free(source->pack);
    free(source);
}
