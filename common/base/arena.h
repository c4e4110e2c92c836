/* A region: many small allocations, freed all at once. For one request, one parsed file, one step.
 * Grows by chunks up to a named maximum; returns NULL beyond it or when memory is out, never
 * aborts. Memory is not zeroed unless asked. One thread at a time.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena { /* zeroed memory is a valid arena without allocations, limited to 64 MiB */
    struct arena_chunk *chunks;
    size_t used_bytes; /* the sizes that callers requested, rounded up */
    size_t max_bytes;
    bool out_of_memory; /* malloc has failed since arena_init */
};

enum { ARENA_DEFAULT_MAX_BYTES = 64 << 20, ARENA_CHUNK_BYTES = 4096 };

void arena_init(struct arena *arena, size_t max_bytes);
void arena_fini(struct arena *arena); /* frees everything; the arena may be used again */

/* Aligned for any type. size 0 returns a unique pointer. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_zalloc(struct arena *arena, size_t size);
void *arena_array(struct arena *arena, size_t count, size_t size); /* zeroed; checks overflow */
void *arena_pointers(struct arena *arena, size_t count);           /* an array of them, all NULL */
void *arena_copy(struct arena *arena, const void *data, size_t size);

char *arena_strdup(struct arena *arena, const char *text);               /* NULL for NULL */
char *arena_strndup(struct arena *arena, const char *text, size_t size); /* adds the NUL */
char *arena_printf(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
