/* The largest of n elements: out[outer, inner] of x[outer, n, inner]. NaN is larger than
 * everything. The first of equals gets the gradient; the backward pass finds it again.
 *
 * Bytes that one element of x moves, values of v bytes: forward v; backward v + 4, and 4 more where
 * it is added to.
 */
#ifndef CUDA_KERNELS_LARGEST_H
#define CUDA_KERNELS_LARGEST_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_largest {
    int64_t outer, n, inner;
    struct gpu_value x;
};
void gpu_largest_forward(const struct gpu_largest *largest, struct gpu_value out,
                         cudaStream_t stream);
void gpu_largest_backward(const struct gpu_largest *largest, struct gpu_gradient dx,
                          const float *dout, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
