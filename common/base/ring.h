/* Bounded first-in first-out queue of fixed-size items, copied in and out. A full ring is a normal
 * result: the caller decides what to refuse or to forget. One thread at a time. */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <stdbool.h>
#include <stddef.h>

struct ring { /* zeroed memory is a ring of capacity 0 */
    char *items;
    size_t item_bytes;
    size_t capacity;
    size_t head;
    size_t count;
};

int ring_init(struct ring *ring, size_t capacity, size_t item_bytes); /* E_RESOURCE_EXHAUSTED */
void ring_fini(struct ring *ring);
void ring_clear(struct ring *ring);

int ring_push(struct ring *ring, const void *item);       /* E_RESOURCE_EXHAUSTED when full */
bool ring_push_over(struct ring *ring, const void *item); /* true if the oldest was forgotten */
bool ring_pop(struct ring *ring, void *ret_item); /* false when empty; ret_item may be NULL */

/* The i-th oldest item in place, NULL beyond the count. */
void *ring_at(const struct ring *ring, size_t i);

static inline bool ring_full(const struct ring *ring)
{
    return ring->count == ring->capacity;
}

#endif
