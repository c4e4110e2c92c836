/* Windows of images reduced to one element each, as op/pool2d.c: planes [height, width] to planes
 * [out_height, out_width]. A thread has one element of the result. Backward it has one of the
 * image, and adds up its windows in order: the same bits on every run, without atomics.
 *
 * Bytes: image and result once; backward of a maximum the image, both gradients. Windows overlap in
 * the caches: kernel^2 / stride^2 reads of each element, backward kernel^4 / stride^2 of a maximum.
 */
#ifndef CUDA_KERNELS_POOL_H
#define CUDA_KERNELS_POOL_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_pool {
    int64_t planes, height, width, out_height, out_width;
    int kernel, stride, padding;
    bool max; /* else the mean, which counts the zeros of the padding */
};

void gpu_pool2d_forward(const struct gpu_pool *pool, struct gpu_value x, struct gpu_value out,
                        cudaStream_t stream);
/* x is not read for a mean. */
void gpu_pool2d_backward(const struct gpu_pool *pool, struct gpu_value x, const float *dout,
                         struct gpu_gradient dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
