/* Losses of rows of logits that a product has just made, and their slopes. The row is read twice,
 * the second time mostly from the L2 cache.
 *
 *     x       logits of the row less the largest of them
 *     loss    log(sum of exp(x)) - (1 - smoothing) x[target] - smoothing * mean of x, times the
 *             weight of the target
 *     slopes  exp(x) / sum of exp(x) - (1 - smoothing) [target] - smoothing / classes
 *
 * Both are 0 for a negative target. Slopes are not multiplied by the gradient of the loss yet: they
 * are at most 1 whatever its scale. Host functions launch on the stream (gpu.h). Rows may be 0. */
#ifndef CUDA_KERNELS_ENTROPY_HEAD_H
#define CUDA_KERNELS_ENTROPY_HEAD_H

#include <stdint.h>

#include "libworker/cuda/kernels/product.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HEAD_ROWS = 4096, /* whose logits are in memory at a time: the table is read once for them */
    HEAD_STRIDE_STEP = 64, /* rows of logits and slopes are whole vectors */
};

struct head_rows {
    int64_t rows, classes;
    const float *logits; /* [rows, stride] */
    int64_t stride;
    const int32_t *targets; /* [rows] */
    const float *weights;   /* [classes], or NULL: all 1 */
    float smoothing;
    struct typed_array losses; /* [rows] */
    struct typed_array slopes; /* [rows, slopes_stride]; at NULL: not wanted */
    int64_t slopes_stride;
};
void head_losses(const struct head_rows *rows, cudaStream_t stream);

/* What each row is multiplied by in the backward pass: the gradient of its loss times the weight of
 * its target. */
struct head_factors {
    int64_t rows, width;
    const float *dlosses;
    const int32_t *targets;
    const float *weights;
};

/* to[rows, width] = from, each row times its factor. */
void head_scale(const struct head_factors *factors, struct typed_array to, struct typed_array from,
                cudaStream_t stream);

/* dx[rows, width] = products, each row times its factor, or that added to dx. They may be the same
 * memory where it does not add. */
void head_add(const struct head_factors *factors, float *dx, const float *products, bool add,
              cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
