/* Functions of whole rows of logits: softmax, cross-entropy, and the divergence of two softmaxes.
 * Exponents are relative to the row's largest element, so that no power overflows. Sums are in f32,
 * in a fixed order.
 *
 * Bytes that one element moves, with x and out of v bytes. A row stays in the second cache between
 * the passes over it:
 *
 *     softmax          forward v + v     backward v + 4 + 4
 *     cross-entropy    forward v         backward v + 4
 *     divergence       forward v + v     backward v + v + 4
 *
 * A gradient that is added moves 4 more.
 */
#ifndef CUDA_KERNELS_SOFTMAX_H
#define CUDA_KERNELS_SOFTMAX_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_rows {
    int64_t rows, width;
};

/* out[rows, width] may be x. */
void gpu_softmax_forward(const struct gpu_rows *rows, struct gpu_value x, struct gpu_value out,
                         cudaStream_t stream);
/* dx = y (dout - sum of y dout). */
void gpu_softmax_backward(const struct gpu_rows *rows, struct gpu_value y, const float *dout,
                          struct gpu_gradient dx, cudaStream_t stream);

/* As struct kernel_entropy (kernel/kernel.h); a row's loss is multiplied by its target's weight. */
struct gpu_entropy {
    int64_t rows, classes;
    const int32_t *targets;
    float smoothing;
    const float *weights; /* [classes] in the device's memory, or NULL */
};

/* log_sums[rows], the logs of the sums of exp(x), are for the backward pass, or NULL. That computes
 * a probability as exp(x - log_sum). Its relative error is at most (|x| + 2 |log_sum| + 4) 2^-24,
 * of the roundings of log_sum and of the difference, besides expf's own. */
void gpu_entropy_forward(const struct gpu_entropy *e, struct gpu_value logits,
                         struct gpu_value losses, float *log_sums, cudaStream_t stream);
void gpu_entropy_backward(const struct gpu_entropy *e, struct gpu_value logits,
                          const float *log_sums, const float *dlosses, struct gpu_gradient dlogits,
                          cudaStream_t stream);

/* As curve_kernels' divergence (kernel/curves.h). */
struct gpu_divergence {
    int64_t rows, classes;
    struct gpu_value student, teacher;
};

void gpu_divergence_forward(const struct gpu_divergence *d, struct gpu_value losses,
                            cudaStream_t stream);
void gpu_divergence_backward(const struct gpu_divergence *d, const float *dlosses,
                             struct gpu_gradient dstudent, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
