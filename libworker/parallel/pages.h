/* Large zeroed memory whose parts can be given back and come back as zeros. Addresses stay: what is
 * given back costs nothing but address space until it is touched again. So a model's pointers into
 * its arenas never change, however much of them is in memory. Owned by whoever made it; any thread,
 * as ordinary memory.
 */
#ifndef PARALLEL_PAGES_H
#define PARALLEL_PAGES_H

#include <stddef.h>

/* `count` floats, page-aligned; NULL without memory (or count 0). */
float *pages_new(size_t count);
void pages_free(float *pages, size_t count); /* NULL is fine */

/* The range is zero from now on; the whole pages inside are given back. */
void pages_drop(float *first, size_t count);

/* Bytes of the range that are in memory now, in whole pages. */
size_t pages_resident(const float *first, size_t count);

#endif
