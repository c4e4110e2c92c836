/* Arrays without rows: each thread has a span of elements side by side at a time (span.h). The last
 * elements, fewer than a span, go one by one. For kernels and their launchers only.
 */
#ifndef CUDA_KERNELS_FLAT_H
#define CUDA_KERNELS_FLAT_H

#include "libworker/cuda/kernels/span.h"

enum { FLAT_THREADS = 256, FLAT_BLOCKS_MAX = 1 << 20 /* more follow in the same blocks */ };

static inline dim3 flat_grid(int64_t count)
{
    int64_t each = (int64_t)FLAT_THREADS * SPAN, blocks = (count + each - 1) / each;
    return dim3(blocks < FLAT_BLOCKS_MAX ? (unsigned)blocks : (unsigned)FLAT_BLOCKS_MAX);
}

/* Of the block. */
static __device__ __forceinline__ int64_t flat_first()
{
    return blockIdx.x * span_step();
}

static __device__ __forceinline__ int64_t flat_step()
{
    return gridDim.x * span_step();
}

static __device__ __forceinline__ struct span flat_span(int64_t at, int64_t count)
{
    return span_of(true, at, count);
}

#endif
