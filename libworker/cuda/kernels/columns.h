/* Sums of a matrix's columns, in a fixed order. A block has 32 columns and 32 strides of rows, and
 * adds up the sums of the strides. For kernels only.
 */
#ifndef CUDA_KERNELS_COLUMNS_H
#define CUDA_KERNELS_COLUMNS_H

#include "libworker/cuda/gpu.h"

enum { COLUMNS_TILE = 32, COLUMNS_STRIDES = 32 };

static inline dim3 columns_block()
{
    return dim3(COLUMNS_TILE, COLUMNS_STRIDES);
}

static inline unsigned columns_blocks(int64_t columns)
{
    return (unsigned)((columns + COLUMNS_TILE - 1) / COLUMNS_TILE);
}

static __device__ __forceinline__ int64_t columns_own()
{
    return (int64_t)blockIdx.x * COLUMNS_TILE + threadIdx.x;
}

/* Each thread has the sum of its stride; threads of the first stride get the column's. `room` is
 * shared, [COLUMNS_STRIDES * COLUMNS_TILE]. All threads of the block call it. */
template <class T> static __device__ __forceinline__ T columns_join(T sum, T *room)
{
    T *own = room + threadIdx.y * COLUMNS_TILE + threadIdx.x;
    __syncthreads(); /* the room is free again */
    *own = sum;
    for (unsigned half = COLUMNS_STRIDES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half)
            *own += own[half * COLUMNS_TILE];
    }
    return *own;
}

#endif
