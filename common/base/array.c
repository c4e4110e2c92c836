#include "common/base/array.h"

#include <limits.h>
#include <stdlib.h>

#include "common/base/assert.h"

enum { FIRST_CAPACITY = 16 };

void *array_reserve(void *items, int count, int *capacity, size_t item_bytes)
{
    insist(count >= 0 && count <= *capacity);
    if (count < *capacity)
        return items;
    never(*capacity > INT_MAX / 2);
    *capacity = *capacity ? *capacity * 2 : FIRST_CAPACITY;
    items = reallocarray(items, (size_t)*capacity, item_bytes);
    insist(items);
    return items;
}
