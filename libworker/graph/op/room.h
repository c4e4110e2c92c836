/* Parts of a call's scratch memory, one after the other, aligned for vectors. */
#ifndef OP_ROOM_H
#define OP_ROOM_H

#include <stddef.h>
#include <stdint.h>

#include "libworker/graph/layout.h"

static inline size_t room_rounded(size_t bytes)
{
    return (bytes + LAYOUT_ALIGN_BYTES - 1) / LAYOUT_ALIGN_BYTES * LAYOUT_ALIGN_BYTES;
}

/* `count` elements of `each` bytes; *room moves past them. */
static inline void *room_take(uint8_t **room, int64_t count, size_t each)
{
    void *part = *room;
    *room += room_rounded((size_t)count * each);
    return part;
}

#endif
