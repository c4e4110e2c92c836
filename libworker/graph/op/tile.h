/* Values of f32, bf16 or f16 for loops over f32, a tile at a time. Values in f32 are used in place.
 * Others are widened into a small buffer and narrowed from it, to nearest even.
 *
 *       for (int64_t at = 0, n; (n = tile_at(count, at)) > 0; at += n) {
 *           float x_room[TILE_MAX], y_room[TILE_MAX];
 *           const float *x = tile_read(k, &in, at, n, x_room);
 *           float *y = tile_target(&out, at, y_room);
 *           … y[0 … n) from x[0 … n) …
 *           tile_store(k, &out, at, n, y);
 *       }
 *
 * Gradients go the same way: one that is added to (`add`) is computed beside and added by
 * tile_store. Memory is the caller's. Pure, any thread.
 */
#ifndef OP_TILE_H
#define OP_TILE_H

#include <string.h>

#include "libworker/graph/op.h"

enum { TILE_MAX = 2048 }; /* floats: 8 KiB, so that a few of them stay in the nearest cache */

static inline int64_t tile_at(int64_t count, int64_t at)
{
    return count - at < TILE_MAX ? count - at : TILE_MAX;
}

/* The address of element `first`. */
static inline void *tensor_at(const struct op_tensor *tensor, int64_t first)
{
    return (char *)tensor->data + first * (int64_t)wk_dtype_bytes(tensor->type);
}

static inline bool tensor_is_low(const struct op_tensor *tensor)
{
    return tensor->type == WK_BF16 || tensor->type == WK_F16;
}

/* `count` elements from `first` on; `room` has place for them, and may be larger than a tile. */
static inline const float *tile_read(const struct kernel_table *kernels,
                                     const struct op_tensor *tensor, int64_t first, int64_t count,
                                     float *room)
{
    const void *data = tensor_at(tensor, first);
    if (!tensor_is_low(tensor))
        return data;
    kernels->widen(room, tensor->type, data, (size_t)count);
    return room;
}

/* Where to put elements from `first` on before tile_store: the memory itself, or `room`. */
static inline float *tile_target(const struct op_tensor *tensor, int64_t first, float *room)
{
    return tensor_is_low(tensor) || tensor->add ? room : tensor_at(tensor, first);
}

/* The elements that were put at tile_target's `values` are there. */
static inline void tile_store(const struct kernel_table *kernels, const struct op_tensor *tensor,
                              int64_t first, int64_t count, const float *values)
{
    void *data = tensor_at(tensor, first);
    if (tensor_is_low(tensor))
        kernels->narrow(data, tensor->type, values, (size_t)count);
    else if (tensor->add)
        kernels->add(data, values, (size_t)count);
}

/* One span of elements, of any type; values change their type on the way. */
static inline void tile_copy(const struct kernel_table *kernels, const struct op_tensor *to,
                             const struct op_tensor *from, const int64_t first[2], int64_t count)
{
    if (to->type == from->type && !to->add) {
        memmove(tensor_at(to, first[0]), tensor_at(from, first[1]),
                (size_t)count * wk_dtype_bytes(to->type));
        return;
    }
    for (int64_t at = 0, n; (n = tile_at(count, at)) > 0; at += n) {
        float room[TILE_MAX], copy[TILE_MAX];
        const float *x = tile_read(kernels, from, first[1] + at, n, room);
        float *y = tile_target(to, first[0] + at, copy);
        if (x != y)
            memcpy(y, x, (size_t)n * sizeof(*y));
        tile_store(kernels, to, first[0] + at, n, y);
    }
}

/* For a kernel that adds to a gradient: zeros first, unless the call adds anyway. */
static inline void tile_zero(const struct kernel_table *kernels, const struct op_tensor *gradient)
{
    if (gradient->data && !gradient->add)
        kernels->fill(gradient->data, 0, (size_t)gradient->count);
}

#endif
