/* Batch normalization (Ioffe and Szegedy 2015) around a dimension of channels: x is [outer,
 * channels, inner]. Sums of channels are in double, in a fixed order.
 *
 * Bytes that one element moves, with x and out of v bytes:
 *
 *     sums, squares        v        each reads x once
 *     result               v + v
 *     its backward pass    v + 4    for the sums of channels
 *                          4 + 4    dx from dout; + 4 where it is added
 *     that of squares      v        for the sums' gradient
 *                          v + 4    dx
 *     that of sums         4
 *
 * The ranks may meet between them, so no two can be one pass.
 */
#ifndef CUDA_KERNELS_BATCH_NORM_H
#define CUDA_KERNELS_BATCH_NORM_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_channels {
    int64_t outer, channels, inner; /* outer may be 0 */
    struct gpu_value x;
    void *scratch; /* gpu_channels_bytes of it */
};

size_t gpu_channels_bytes(const struct gpu_channels *c);

/* sums[channels + 1] of x, the last being outer * inner; and its gradient's way back. */
void gpu_channels_sums(const struct gpu_channels *c, float *sums, cudaStream_t stream);
void gpu_channels_sums_back(const struct gpu_channels *c, const float *dsums,
                            struct gpu_gradient dx, cudaStream_t stream);

/* squares[channels] of x - mean, where mean = sums / their last. */
void gpu_channels_squares(const struct gpu_channels *c, const float *sums, float *squares,
                          cudaStream_t stream);

struct gpu_squares_gradients {
    const float *sums, *dsquares;
    struct gpu_gradient dx, dsums;
};
void gpu_channels_squares_back(const struct gpu_channels *c, const struct gpu_squares_gradients *g,
                               cudaStream_t stream);

/* The result's statistics: of sums and squares in training, else mean and variance. */
struct gpu_statistics {
    bool trains;
    float epsilon;
    const float *sums, *squares, *mean, *variance;
    const float *weight, *bias; /* NULL: ones, zeros */
};
void gpu_batch_norm(const struct gpu_channels *c, const struct gpu_statistics *s,
                    struct gpu_value out, cudaStream_t stream);

/* x and the statistics are missing where only the bias has a gradient. */
struct gpu_batch_norm_gradients {
    const float *dout;
    struct gpu_gradient dx, dsums, dsquares, dweight, dbias;
};
void gpu_batch_norm_back(const struct gpu_channels *c, const struct gpu_statistics *s,
                         const struct gpu_batch_norm_gradients *g, cudaStream_t stream);

/* next[channels] = running + momentum * (statistic - running). */
struct gpu_running {
    int64_t channels;
    bool variance; /* else the mean */
    float momentum;
    const float *running, *sums, *squares;
};
void gpu_batch_norm_running(const struct gpu_running *r, float *next, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
