/* Elements of values by the pack: two lines in f32, else one. For kernels only. */
#ifndef CUDA_KERNELS_PACK_H
#define CUDA_KERNELS_PACK_H

#include "libworker/cuda/kernels/line.h"

enum { PACK = 8 };

static __device__ __forceinline__ const void *value_at(struct gpu_value value, int64_t i)
{
    return (const char *)value.at + i * (value.type == WK_F32 ? 4 : 2);
}

/* PACK elements side by side, which begin at an aligned address. */
static __device__ __forceinline__ void pack_read(enum wk_dtype type, const void *at,
                                                 float ret[PACK])
{
    if (type == WK_F32) {
        floats_read((const float *)at, ret);
        floats_read((const float *)at + 4, ret + 4);
        return;
    }
    uint4 line = line_read(at);
    halves_read(type, line.x, ret);
    halves_read(type, line.y, ret + 2);
    halves_read(type, line.z, ret + 4);
    halves_read(type, line.w, ret + 6);
}

static __device__ __forceinline__ void pack_write(enum wk_dtype type, void *at, const float x[PACK])
{
    if (type == WK_F32) {
        floats_write((float *)at, x);
        floats_write((float *)at + 4, x + 4);
        return;
    }
    uint4 line;
    line.x = halves_of(type, x);
    line.y = halves_of(type, x + 2);
    line.z = halves_of(type, x + 4);
    line.w = halves_of(type, x + 6);
    line_write(at, line);
}

#endif
