/* Growth of arrays that their owner keeps as items, count and capacity. Any thread.
 *
 *     list->items = array_reserve(list->items, list->count, &list->capacity, sizeof(*list->items));
 *     list->items[list->count++] = item;
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>

/* The items, with a place for one more. A full array gets twice its capacity: `items` is invalid
 * then, as after realloc. The program ends when there is no memory. */
void *array_reserve(void *items, int count, int *capacity, size_t item_bytes);

/* The same for code that survives without memory: NULL, and `items` stays as it was. */
void *array_reserve_or_null(void *items, int count, int *capacity, size_t item_bytes);

#endif
