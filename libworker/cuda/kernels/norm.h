/* Norms of rows: layer norm (Ba et al. 2016), RMS norm (Zhang and Sennrich 2019), and group norm
 * (Wu and He 2018), where a row is a group of a sample's channels. Sums are in f32, in a fixed
 * order.
 *
 * Bytes that one element moves, with x and out of v bytes: 4, or 2 in bf16 and f16. A row stays in
 * the first cache between the passes over it:
 *
 *     forward    v + v                 x, out                              floor: the same
 *     of a sum   v + v + v + v         its two parts, x, out               floor: the same
 *     backward   v + 4 + 4             x, dout, dx; + 4 where dx is added  floor: the same
 *     group's backward: v + 4 more, as the channels' sums read x and dout again
 *
 * beside 4 or 8 bytes a row of statistics. The backward pass leaves 8 bytes a column and block of
 * partial sums, which stay in the second cache: at most NORM_BLOCKS_MAX * 8 * width bytes.
 */
#ifndef CUDA_KERNELS_NORM_H
#define CUDA_KERNELS_NORM_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_norm {
    int64_t rows, width; /* of x, row after row; 0 is allowed */
    int64_t groups;      /* rows of a sample; 1 but for group norm */
    int64_t each;        /* elements of a channel; 1 but for group norm */
    float epsilon;
    bool centred;                  /* there is a mean: all but RMS norm */
    struct gpu_value x;            /* [rows, width]; backward it, weight and statistics may be
                                    * missing, if only the bias has a gradient */
    struct gpu_value parts[2];     /* forward: x becomes their sum first; missing: x is there */
    struct gpu_value weight, bias; /* [groups * width / each]; bias may be missing */
    float *mean, *rstd;            /* [rows]: written forward, read backward */
};

void gpu_norm_forward(const struct gpu_norm *norm, struct gpu_value out, cudaStream_t stream);

struct gpu_norm_gradients {
    const float *dout; /* [rows, width] */
    struct gpu_gradient dx, dweight, dbias;
    float *partials; /* gpu_norm_partials of them */
};

/* Floats of scratch memory that the backward pass needs. */
size_t gpu_norm_partials(int64_t rows, int64_t width);
void gpu_norm_backward(const struct gpu_norm *norm, const struct gpu_norm_gradients *gradients,
                       cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
