#include "common/base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK_MAX_BYTES = 1 << 20 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t size, used;
    alignas(max_align_t) char bytes[];
};

void arena_init(struct arena *arena, size_t max_bytes)
{
    *arena = (struct arena){.max_bytes = max_bytes};
}

void arena_fini(struct arena *arena)
{
    struct arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    arena->chunks = NULL;
    arena->used_bytes = 0;
}

static struct arena_chunk *chunk_new(const struct arena *arena, size_t size)
{
    /* Chunks double, so that a large region costs few of them and a small one little memory. */
    size_t bytes = arena->chunks ? arena->chunks->size * 2 : ARENA_CHUNK_BYTES;
    if (bytes > ARENA_CHUNK_MAX_BYTES)
        bytes = ARENA_CHUNK_MAX_BYTES;
    if (bytes < size)
        bytes = size;
    struct arena_chunk *chunk = malloc(sizeof(*chunk) + bytes);
    if (chunk) {
        chunk->size = bytes;
        chunk->used = 0;
    }
    return chunk;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    size_t limit = arena->max_bytes ? arena->max_bytes : (size_t)ARENA_DEFAULT_MAX_BYTES;
    if (size > limit)
        return NULL;
    size_t align = alignof(max_align_t);
    size_t need = size ? (size + align - 1) / align * align : align;
    if (need > limit - arena->used_bytes)
        return NULL;
    struct arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < need) {
        chunk = chunk_new(arena, need);
        if (!chunk) {
            arena->out_of_memory = true;
            return NULL;
        }
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *memory = chunk->bytes + chunk->used;
    chunk->used += need;
    arena->used_bytes += need;
    return memory;
}

void *arena_zalloc(struct arena *arena, size_t size)
{
    void *memory = arena_alloc(arena, size);
    return memory ? memset(memory, 0, size) : NULL;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return arena_zalloc(arena, bytes);
}

void *arena_pointers(struct arena *arena, size_t count)
{
    enum { POINTER_BYTES = sizeof(void *) };
    return arena_array(arena, count, POINTER_BYTES);
}

void *arena_copy(struct arena *arena, const void *data, size_t size)
{
    void *memory = arena_alloc(arena, size);
    if (memory && size)
        memcpy(memory, data, size);
    return memory;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return text ? arena_copy(arena, text, strlen(text) + 1) : NULL;
}

char *arena_strndup(struct arena *arena, const char *text, size_t size)
{
    if (size == SIZE_MAX)
        return NULL;
    char *copy = arena_alloc(arena, size + 1);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int length = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *text = length < 0 ? NULL : arena_alloc(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, fmt, again);
    va_end(again);
    return text;
}
