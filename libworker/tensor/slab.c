#include <assert.h>
#include <stdint.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/tensor/memory.h"
#include "libworker/tensor/slab.h"

enum { ALIGN_ELEMENTS = SLAB_ALIGN_BYTES / sizeof(float) };

void slab_fini(struct slab *slab)
{
    if (!slab)
        return;
    memory_free(slab->data, slab->capacity * sizeof(*slab->data));
    *slab = (struct slab){0};
}

size_t slab_rounded(size_t count)
{
    return (count + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
}

int slab_reset(struct slab *slab, size_t count, struct error *err)
{
    slab->used = 0;
    if (count <= slab->capacity)
        return 0;
    if (count > SIZE_MAX / sizeof(float) / 2)
        return error_set(err, WK_ENOMEM, "%zu elements are more than memory has room for", count);
    size_t rounded = slab_rounded(count);
    float *data = memory_new(rounded * sizeof(*data));
    if (!data)
        return error_set(err, WK_ENOMEM, "no memory for %zu bytes", rounded * sizeof(float));
    memory_free(slab->data, slab->capacity * sizeof(*slab->data));
    slab->data = data;
    slab->capacity = rounded;
    return 0;
}

void slab_touch(struct slab *slab)
{
    if (slab->data)
        memset(slab->data, 0, slab->capacity * sizeof(*slab->data));
}

float *slab_take(struct slab *slab, size_t count)
{
    size_t rounded = slab_rounded(count);
    assert(rounded <= slab->capacity - slab->used);
    float *view = slab->data + slab->used;
    slab->used += rounded;
    return view;
}
