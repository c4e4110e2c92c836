/* Zeroed floats in a file without a name. The system may write them to the file and reuse their
 * memory at any time, and reads them again when they are used. Their content is the same as in
 * ordinary memory. The file's space is allocated with them and freed with them, also when the
 * process dies. Owned by their creator; any thread, like ordinary memory. */
#ifndef TENSOR_MAPPED_H
#define TENSOR_MAPPED_H

#include <stddef.h>

#include "common/base/error.h"

/* `count` ≥ 1 floats, page-aligned, in folder `dir`. NULL with a sentence: no such folder, no
 * permission, no space (all of it is allocated now, so none is missing later). */
float *mapped_new(const char *dir, size_t count, struct error *err);
void mapped_free(float *data, size_t count); /* NULL is fine */

/* data[first … first + count) is not needed for a while: its pages are given back, its content
 * stays. */
void mapped_give_back(const float *data, size_t first, size_t count);

#endif
