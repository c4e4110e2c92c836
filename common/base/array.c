#include "common/base/array.h"

#include <limits.h>
#include <stdlib.h>

#include "common/base/assert.h"

enum { FIRST_CAPACITY = 16 };

void *array_reserve_or_null(void *items, int count, int *capacity, size_t item_bytes)
{
    insist(count >= 0 && count <= *capacity);
    if (count < *capacity)
        return items;
    never(*capacity > INT_MAX / 2);
    int larger = *capacity ? *capacity * 2 : FIRST_CAPACITY;
    items = reallocarray(items, (size_t)larger, item_bytes);
    if (items)
        *capacity = larger;
    return items;
}

void *array_reserve(void *items, int count, int *capacity, size_t item_bytes)
{
    items = array_reserve_or_null(items, count, capacity, item_bytes);
    insist(items);
    return items;
}
