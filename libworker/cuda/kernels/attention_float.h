/* The engine of attention for f32: products of a warp by plain sums, in order. Device code. */
#ifndef CUDA_KERNELS_ATTENTION_FLOAT_H
#define CUDA_KERNELS_ATTENTION_FLOAT_H

#include "libworker/cuda/kernels/attention_tile.h"

struct float_engine {
    typedef float element;
    static constexpr enum wk_dtype type = WK_F32;

    template <int D> static __device__ inline const float *at(chunk *tile, int row, int c)
    {
        chunk *place = tile_place<D, float_engine>(tile, row, c);
        return (const float *)place;
    }

    template <int D, int N>
    static __device__ inline void rows(float (&acc)[N / 8][4], chunk *a, int row, chunk *b)
    {
        int g = lane_index() / 4, t = lane_index() % 4;
        for (int c = 0; c < D / 4; c++) {
            const float *x[2] = {at<D>(a, row + g, c), at<D>(a, row + g + 8, c)};
            GPU_UNROLL
            for (int n = 0; n < N / 8; n++) {
                const float *y[2] = {at<D>(b, 8 * n + 2 * t, c), at<D>(b, 8 * n + 2 * t + 1, c)};
                GPU_UNROLL
                for (int i = 0; i < 4; i++) {
                    GPU_UNROLL
                    for (int k = 0; k < 4; k++)
                        acc[n][i] += x[i / 2][k] * y[i % 2][k];
                }
            }
        }
    }

    template <int D, int K, int N>
    static __device__ inline void sums(float (&acc)[N / 8][4], const float (&p)[K / 8][4], chunk *b,
                                       int from)
    {
        int t = lane_index() % 4, quad = lane_index() / 4 * 4;
        GPU_UNROLL
        for (int k = 0; k < K; k++) {
            float x[2];
            GPU_UNROLL
            for (int i = 0; i < 2; i++)
                x[i] = __shfl_sync(0xffffffffu, p[k / 8][2 * i + k % 2], quad + k % 8 / 2);
            GPU_UNROLL
            for (int n = 0; n < N / 8; n++) {
                int column = from + 8 * n + 2 * t;
                const float *y = at<D>(b, k, column / 4) + column % 4;
                GPU_UNROLL
                for (int i = 0; i < 4; i++)
                    acc[n][i] += x[i / 2] * y[i % 2];
            }
        }
    }
};

#endif
