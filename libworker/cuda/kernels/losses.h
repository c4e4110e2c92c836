/* Losses of two arrays, element by element, and their slopes. One element moves x, target and the
 * result once: 3 v bytes forward, 2 v + 4 + 4 for each gradient backward (+ 4 where it is added).
 */
#ifndef CUDA_KERNELS_LOSSES_H
#define CUDA_KERNELS_LOSSES_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

enum gpu_loss {
    GPU_SQUARED_ERROR,        /* (x - target)^2 */
    GPU_BINARY_CROSS_ENTROPY, /* of logits: -target log s(x) - (1 - target) log s(-x) */
};

struct gpu_pair {
    enum gpu_loss loss;
    int64_t count;
    struct gpu_value x, target;
};

/* out may be x or target. */
void gpu_pair_forward(const struct gpu_pair *pair, struct gpu_value out, cudaStream_t stream);
/* The gradients that are wanted; dout has f32. */
void gpu_pair_backward(const struct gpu_pair *pair, const float *dout,
                       const struct gpu_gradient gradients[2], cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
