/* Sums and maxima over a warp and a block, in one order: the same bits on every run. All threads of
 * the warp or block call them and all get the result. */
#ifndef KERNELS_WARP_H
#define KERNELS_WARP_H

#include "libworker/cuda/gpu.h"

enum { WARP = 32, WARPS_MAX = 32, ALL_LANES = -1 };

struct sum_of {
    template <class T> static __device__ __forceinline__ T both(T a, T b)
    {
        return a + b;
    }
};

/* NaN is larger than everything. */
struct largest_of {
    template <class T> static __device__ __forceinline__ T both(T a, T b)
    {
        return a > b || a != a ? a : b;
    }
};

template <class How, class T> static __device__ __forceinline__ T warp_reduce(T value)
{
    GPU_UNROLL
    for (int bits = WARP / 2; bits > 0; bits /= 2)
        value = How::both(value, __shfl_xor_sync(0xffffffffu, value, bits));
    return value;
}

template <class T> static __device__ __forceinline__ T warp_sum(T value)
{
    return warp_reduce<sum_of>(value);
}

template <class T> static __device__ __forceinline__ T warp_max(T value)
{
    return warp_reduce<largest_of>(value);
}

/* Of blocks of one dimension with whole warps. `none` changes nothing: 0, or -INFINITY. `room` is
 * shared memory of WARPS_MAX elements; it is free again when the next barrier has passed. */
template <class How, class T> static __device__ T block_reduce(T value, T none, T *room)
{
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    int warps = (int)blockDim.x / WARP;
    value = warp_reduce<How>(value);
    if (lane == 0)
        room[warp] = value;
    __syncthreads();
    return warp_reduce<How>(lane < warps ? room[lane] : none);
}

template <class T> static __device__ T block_sum(T value, T *room)
{
    return block_reduce<sum_of>(value, T(0), room);
}

#endif
