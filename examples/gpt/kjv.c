#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/kjv.h"

enum {
    HEAD_BYTES = 0x54, /* "EC02Compressed Data File" and padding; then big-endian numbers: */
    BLOCKS_AT = 0x58,  /* how many blocks (before it: their unpacked size) */
    STARTS_AT = 0x5c,  /* where each begins, and where the last one ends */
    BLOCKS_MAX = 1024,
    BLOCK_BYTES = 65536,
    FILE_MAX_BYTES = 16 << 20,
    BITS_MIN = 9,
    BITS_MAX = 16,
    CLEAR = 256, /* the code that empties the table */
    FIRST = 257,
};

static uint32_t big32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Codes of a growing width, low bits first. When the width changes, compress leaves the rest of a
 * group of eight codes unused. */
struct reader {
    const unsigned char *data;
    size_t bits_total, at, group; /* in bits; group: where the present one began */
    int width;
};

static int next_code(struct reader *reader)
{
    if (reader->at + (size_t)reader->width > reader->bits_total)
        return -1;
    unsigned code = 0;
    for (int i = 0; i < reader->width; i++, reader->at++)
        code |= (unsigned)(reader->data[reader->at / 8] >> reader->at % 8 & 1) << i;
    return (int)code;
}

static void set_width(struct reader *reader, int width)
{
    size_t group = 8 * (size_t)reader->width, used = (reader->at - reader->group) % group;
    if (used)
        reader->at += group - used;
    reader->group = reader->at;
    reader->width = width;
}

struct table {
    uint16_t prefix[1 << BITS_MAX];
    unsigned char last[1 << BITS_MAX];
    unsigned char stack[1 << BITS_MAX];
};

/* Writes the string of `code` to out; returns its length, 0 if the code is impossible. */
static size_t expand(struct table *table, int code, int next, char *out, size_t room)
{
    size_t depth = 0;
    while (code >= FIRST) {
        if (code >= next || depth == sizeof(table->stack))
            return 0;
        table->stack[depth++] = table->last[code];
        code = table->prefix[code];
    }
    if (code == CLEAR || depth + 1 > room)
        return 0;
    *out = (char)code;
    for (size_t i = 0; i < depth; i++)
        out[1 + i] = (char)table->stack[depth - 1 - i];
    return depth + 1;
}

/* LZW as in compress(1), block mode, 16 bits. Returns bytes written to out[BLOCK_BYTES], 0 if the
 * data is damaged. */
static size_t unpack_block(struct table *table, const unsigned char *data, size_t size, char *out)
{
    struct reader reader = {data, size * 8, 0, 0, BITS_MIN};
    int next = FIRST, previous = -1, code;
    size_t filled = 0;
    while ((code = next_code(&reader)) >= 0) {
        if (code == CLEAR) {
            set_width(&reader, BITS_MIN);
            next = FIRST;
            previous = -1;
            continue;
        }
        /* The one code that may be used before it is complete: the string before, and its first. */
        bool itself = previous >= 0 && code == next && next < 1 << BITS_MAX;
        size_t length =
            expand(table, itself ? previous : code, next, out + filled, BLOCK_BYTES - filled);
        if (!length || (itself && filled + length == BLOCK_BYTES))
            return 0;
        if (itself) {
            out[filled + length] = out[filled];
            length++;
        }
        if (previous >= 0 && next < 1 << BITS_MAX) {
            table->prefix[next] = (uint16_t)previous;
            table->last[next] = (unsigned char)out[filled];
            next++;
        }
        filled += length;
        previous = code;
        if (next >= 1 << reader.width && reader.width < BITS_MAX)
            set_width(&reader, reader.width + 1);
    }
    return filled;
}

static unsigned char *read_all(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    unsigned char *data = malloc(FILE_MAX_BYTES);
    *ret_size = data ? fread(data, 1, FILE_MAX_BYTES, file) : 0;
    (void)fclose(file);
    return data;
}

static char *unpack(const unsigned char *data, size_t size, size_t *ret_size)
{
    if (size < STARTS_AT + 8 || memcmp(data, "EC02", 4) != 0)
        return NULL;
    size_t blocks = big32(data + BLOCKS_AT);
    if (blocks < 1 || blocks > BLOCKS_MAX || STARTS_AT + 4 * (blocks + 1) > size)
        return NULL;
    char *text = malloc(blocks * BLOCK_BYTES + 1);
    struct table *table = malloc(sizeof(*table));
    size_t filled = 0;
    for (size_t i = 0; i < blocks && text && table; i++) {
        size_t start = big32(data + STARTS_AT + 4 * i), end = big32(data + STARTS_AT + 4 * i + 4);
        size_t length = start < end && end <= size
                            ? unpack_block(table, data + start, end - start, text + filled)
                            : 0;
        if (!length) {
            free(text);
            text = NULL;
        }
        filled += length;
    }
    free(table);
    *ret_size = filled;
    return text;
}

char *kjv_read(const char *path, size_t *ret_size)
{
    size_t size;
    unsigned char *data = read_all(path, &size);
    if (!data)
        return NULL;
    char *text = unpack(data, size, ret_size);
    free(data);
    return text;
}
