/* Rows and the threads that work on them. Short rows have a warp each, some of them in a block;
 * long ones a block each. Sums and maxima over a row are in a fixed order: all of its threads get
 * the same bits, the same on every run. For kernels and their launchers only.
 *
 *     block (32, 8): threadIdx.y is one of 8 rows      block (threads, 1): one row
 *
 * All threads of a row call these together. `room` is the block's shared memory, [ROWS_ROOM].
 */
#ifndef CUDA_KERNELS_ROWS_H
#define CUDA_KERNELS_ROWS_H

#include "libworker/cuda/kernels/span.h"
#include "libworker/cuda/kernels/warp.h"

enum {
    ROWS_ROOM = 64,
    ROWS_OF_BLOCK = 8,
    ROWS_THREADS_MAX = 512,
    ROWS_BLOCKS_MAX = 1 << 20, /* further rows follow in the same block */
};

struct rows_shape {
    dim3 grid, block;
};

static inline unsigned rows_warps(int64_t width)
{
    int64_t threads = (width + SPAN - 1) / SPAN, warps = (threads + 31) / 32;
    return warps > ROWS_THREADS_MAX / 32 ? ROWS_THREADS_MAX / 32 : (unsigned)(warps ? warps : 1);
}

static inline unsigned rows_blocks(int64_t blocks)
{
    return blocks > ROWS_BLOCKS_MAX ? (unsigned)ROWS_BLOCKS_MAX : (unsigned)blocks;
}

/* A warp has up to four spans of a row. */
static inline struct rows_shape rows_shape_of(int64_t rows, int64_t width)
{
    unsigned warps = rows_warps(width);
    struct rows_shape shape;
    if (warps <= 4) {
        shape.block = dim3(32, ROWS_OF_BLOCK);
        shape.grid = dim3(rows_blocks((rows + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK));
    } else {
        shape.block = dim3(warps * 32);
        shape.grid = dim3(rows_blocks(rows));
    }
    return shape;
}

static __device__ __forceinline__ int64_t rows_first()
{
    return (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
}

static __device__ __forceinline__ int64_t rows_step()
{
    return (int64_t)gridDim.x * blockDim.y;
}

/* The sums of two numbers, which become those of the row. */
static __device__ __forceinline__ void row_sums(float *a, float *b, float *room)
{
    *a = warp_sum(*a);
    *b = warp_sum(*b);
    if (blockDim.x == 32)
        return;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    __syncthreads(); /* the room is free again */
    if (lane == 0) {
        room[warp] = *a;
        room[32 + warp] = *b;
    }
    __syncthreads();
    *a = warp_sum(lane < warps ? room[lane] : 0.0f);
    *b = warp_sum(lane < warps ? room[32 + lane] : 0.0f);
}

static __device__ __forceinline__ float row_sum(float x, float *room)
{
    x = warp_sum(x);
    if (blockDim.x == 32)
        return x;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? room[lane] : 0.0f);
}

/* The largest; NaN is larger than everything. */
static __device__ __forceinline__ float row_max(float x, float *room)
{
    x = warp_max(x);
    if (blockDim.x == 32)
        return x;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    return warp_max(lane < warps ? room[lane] : room[0]);
}

/* The sum over a block of 1 row, in double; the room has 32. Thread 0 has it. */
static __device__ __forceinline__ double block_sum_double(double x, double *room)
{
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? room[lane] : 0.0);
}

#endif
