/* Zeroed floats whose home is a file without a name: the system may write them there and take their
 * memory whenever it likes, and brings them back when they are touched. What they hold is the same
 * as in ordinary memory. The file's space is taken when they are made and freed with them, also
 * when the process dies. Owned by whoever made them; any thread, as ordinary memory.
 */
#ifndef TENSOR_MAPPED_H
#define TENSOR_MAPPED_H

#include <stddef.h>

#include "common/base/error.h"

/* `count` ≥ 1 floats, page-aligned, in folder `dir`. NULL with a sentence: no such folder, not
 * allowed, no room there (all of it is taken now, so none is missing later). */
float *mapped_new(const char *dir, size_t count, struct error *err);
void mapped_free(float *data, size_t count); /* NULL is fine */

/* data[first … first + count) is not needed for a while: its pages are given back, its content
 * stays. */
void mapped_give_back(const float *data, size_t first, size_t count);

#endif
