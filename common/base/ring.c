#include "common/base/ring.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

int ring_init(struct ring *ring, size_t capacity, size_t item_bytes)
{
    char *items = calloc(capacity ? capacity : 1, item_bytes ? item_bytes : 1);
    if (!items)
        return E_RESOURCE_EXHAUSTED;
    *ring = (struct ring){.items = items, .item_bytes = item_bytes, .capacity = capacity};
    return 0;
}

void ring_fini(struct ring *ring)
{
    free(ring->items);
    *ring = (struct ring){0};
}

void ring_clear(struct ring *ring)
{
    ring->head = ring->count = 0;
}

static char *slot(const struct ring *ring, size_t i)
{
    return ring->items + (ring->head + i) % ring->capacity * ring->item_bytes;
}

int ring_push(struct ring *ring, const void *item)
{
    if (ring_full(ring))
        return E_RESOURCE_EXHAUSTED;
    memcpy(slot(ring, ring->count), item, ring->item_bytes);
    ring->count++;
    return 0;
}

bool ring_push_over(struct ring *ring, const void *item)
{
    bool full = ring_full(ring);
    if (full && ring->capacity == 0)
        return true;
    if (full)
        ring_pop(ring, NULL);
    ring_push(ring, item);
    return full;
}

bool ring_pop(struct ring *ring, void *ret_item)
{
    if (ring->count == 0)
        return false;
    if (ret_item)
        memcpy(ret_item, slot(ring, 0), ring->item_bytes);
    ring->head = (ring->head + 1) % ring->capacity;
    ring->count--;
    return true;
}

void *ring_at(const struct ring *ring, size_t i)
{
    return i < ring->count ? slot(ring, i) : NULL;
}
