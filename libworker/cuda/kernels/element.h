/* Elements of f32, bf16 and f16 as floats, for kernels that take any type, and grids for loops over
 * elements: a thread takes one in a step. Device code. */
#ifndef CUDA_KERNELS_ELEMENT_H
#define CUDA_KERNELS_ELEMENT_H

#include <worker/types.h>

#include "libworker/cuda/gpu.h"

enum { LOOP_THREADS = 256, LOOP_BLOCKS_MAX = 1 << 16 };

static __device__ inline float element_read(const void *at, enum wk_dtype type, int64_t i)
{
    if (type == WK_BF16)
        return gpu_float(((const gpu_bf16 *)at)[i]);
    if (type == WK_F16)
        return gpu_float(((const gpu_f16 *)at)[i]);
    return ((const float *)at)[i];
}

static __device__ inline void element_write(void *at, enum wk_dtype type, int64_t i, float x)
{
    if (type == WK_BF16)
        ((gpu_bf16 *)at)[i] = gpu_from<gpu_bf16>(x);
    else if (type == WK_F16)
        ((gpu_f16 *)at)[i] = gpu_from<gpu_f16>(x);
    else
        ((float *)at)[i] = x;
}

static __device__ inline int64_t loop_first(void)
{
    return (int64_t)blockIdx.x * LOOP_THREADS + threadIdx.x;
}

static __device__ inline int64_t loop_step(void)
{
    return (int64_t)gridDim.x * LOOP_THREADS;
}

static inline dim3 loop_blocks(int64_t threads)
{
    int64_t blocks = (threads + LOOP_THREADS - 1) / LOOP_THREADS, most = LOOP_BLOCKS_MAX;
    return dim3((unsigned)(blocks < most ? blocks : most));
}

#endif
