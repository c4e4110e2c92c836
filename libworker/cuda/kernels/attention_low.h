/* The engine of attention for bf16 and f16: products of a warp by tensor cores. Device code. */
#ifndef CUDA_KERNELS_ATTENTION_LOW_H
#define CUDA_KERNELS_ATTENTION_LOW_H

#include <string.h>

#include "libworker/cuda/kernels/attention_tile.h"
#include "libworker/cuda/kernels/mma.h"

/* Two floats in a register, rounded. */
static __device__ inline uint32_t pair_of(float low, float high, gpu_bf16)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof(bits));
    return bits;
}

static __device__ inline uint32_t pair_of(float low, float high, gpu_f16)
{
    __half2 pair = __floats2half2_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof(bits));
    return bits;
}

template <class T, enum wk_dtype TYPE>
struct low_engine {
    typedef T element; static constexpr enum wk_dtype type = TYPE;

    /* acc[16, N] += a[16 rows from row][D] b[N][D]^T */
    template <int D, int N> static __device__ inline void rows(
        float (&acc)[N / 8][4], chunk *a, int row,
        chunk *b){int lane = lane_index(); GPU_UNROLL for (int k = 0; k < D / 16; k++){
        uint32_t x[4], y[4]; gpu_load_matrices<false>(
            x, tile_place<D, low_engine>(a, row + lane % 16, 2 * k + lane / 16));
        GPU_UNROLL for (int n = 0; n < N / 16; n++){
            int other = 16 * n + lane % 8 + lane / 16 * 8;
            gpu_load_matrices<false>(y, tile_place<D, low_engine>(b, other, 2 * k + lane / 8 % 2));
            gpu_mma<T>(acc[2 * n], x, y); gpu_mma<T>(acc[2 * n + 1], x, y + 2);}
}
}

/* acc[16, N] += p[16, K] b[K][N columns from column `from`]; p is rounded. */
template <int D, int K, int N>
static __device__ inline void sums(float (&acc)[N / 8][4], const float (&p)[K / 8][4], chunk *b,
                                   int from)
{
    int lane = lane_index();
    GPU_UNROLL
    for (int k = 0; k < K / 16; k++) {
        uint32_t y[4], x[4] = {
                           pair_of(p[2 * k][0], p[2 * k][1], T()),
                           pair_of(p[2 * k][2], p[2 * k][3], T()),
                           pair_of(p[2 * k + 1][0], p[2 * k + 1][1], T()),
                           pair_of(p[2 * k + 1][2], p[2 * k + 1][3], T()),
                       };
        GPU_UNROLL
        for (int n = 0; n < N / 16; n++) {
            int c = from / 8 + 2 * n + lane / 16;
            gpu_load_matrices<true>(y, tile_place<D, low_engine>(b, 16 * k + lane % 16, c));
            gpu_mma<T>(acc[2 * n], x, y);
            gpu_mma<T>(acc[2 * n + 1], x, y + 2);
        }
    }
}
}
;

#endif
