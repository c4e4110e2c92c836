/* Elements of a row that one thread has at a time, at most SPAN. They are side by side where the
 * row's width is a multiple of SPAN, and are read as lines where they are aligned. Otherwise they
 * are a row of threads apart, so that the loads of a warp are side by side. Which elements a thread
 * has depends on the width alone, so sums have the same bits at every address. For kernels only.
 *
 *     for (int64_t at = 0; at < width; at += span_step()) {
 *         struct span s = span_at(at, width);
 *         float x[SPAN];
 *         span_read(s, value, row, x);
 *         … x[j] is element s.first + j * s.stride, for j < s.count …
 *     }
 */
#ifndef CUDA_KERNELS_SPAN_H
#define CUDA_KERNELS_SPAN_H

#include "libworker/cuda/kernels/pack.h"

enum { SPAN = PACK };

struct span {
    int64_t first;
    int stride, count;
};

/* Elements that the threads of a row have together. */
static __device__ __forceinline__ int64_t span_step()
{
    return (int64_t)SPAN * blockDim.x;
}

static __device__ __forceinline__ struct span span_of(bool together, int64_t at, int64_t width)
{
    struct span s;
    s.stride = together ? 1 : (int)blockDim.x;
    s.first = at + (int64_t)threadIdx.x * (together ? SPAN : 1);
    int64_t left = width - s.first;
    left = left <= 0 ? 0 : (left + s.stride - 1) / s.stride;
    s.count = left < SPAN ? (int)left : (int)SPAN;
    return s;
}

static __device__ __forceinline__ struct span span_at(int64_t at, int64_t width)
{
    return span_of(width % SPAN == 0, at, width);
}

static __device__ __forceinline__ int64_t span_index(struct span s, int j)
{
    return s.first + (int64_t)j * s.stride;
}

/* A whole span side by side, at an aligned address. */
static __device__ __forceinline__ bool span_packs(struct span s, const void *at)
{
    return s.stride == 1 && s.count == SPAN && (uintptr_t)at % 16 == 0;
}

/* Elements of the span in the row that begins at element `row`; 0 for those that there are not. */
static __device__ __forceinline__ void span_read(struct span s, struct gpu_value value, int64_t row,
                                                 float ret[SPAN])
{
    const void *at = value_at(value, row + s.first);
    if (span_packs(s, at)) {
        pack_read(value.type, at, ret);
        return;
    }
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++)
        ret[j] = j < s.count ? value_read(value, row + span_index(s, j)) : 0.0f;
}

static __device__ __forceinline__ void span_write(struct span s, struct gpu_value value,
                                                  int64_t row, const float x[SPAN])
{
    void *at = (void *)(uintptr_t)value_at(value, row + s.first);
    if (span_packs(s, at)) {
        pack_write(value.type, at, x);
        return;
    }
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++)
        if (j < s.count)
            value_write(value, row + span_index(s, j), x[j]);
}

/* An array of floats as a value. */
static __device__ __forceinline__ struct gpu_value floats_value(const float *at)
{
    struct gpu_value value;
    value.at = (void *)(uintptr_t)at;
    value.type = WK_F32;
    return value;
}

/* The gradient becomes x, or x is added to it. */
static __device__ __forceinline__ void span_gradient(struct span s, struct gpu_gradient gradient,
                                                     int64_t row, float x[SPAN])
{
    if (gradient.add) {
        float before[SPAN];
        span_read(s, floats_value(gradient.at), row, before);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            x[j] += before[j];
    }
    span_write(s, floats_value(gradient.at), row, x);
}

static __device__ __forceinline__ void gradient_put(struct gpu_gradient gradient, int64_t i,
                                                    float x)
{
    gradient.at[i] = gradient.add ? gradient.at[i] + x : x;
}

#endif
