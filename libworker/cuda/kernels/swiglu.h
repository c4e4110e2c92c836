/* SwiGLU (Shazeer 2020): x[rows, 2 * inner] has gate and up side by side; out[rows, inner] is
 * gate * sigmoid(gate) * up.
 *
 * Bytes that one element of the result moves, values of v bytes. Forward: 2 v + v. Backward: 2 v +
 * 4 + 8, and 8 more where it is added to.
 */
#ifndef CUDA_KERNELS_SWIGLU_H
#define CUDA_KERNELS_SWIGLU_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

void gpu_swiglu_forward(int64_t rows, int64_t inner, struct gpu_value out, struct gpu_value x,
                        cudaStream_t stream);
void gpu_swiglu_backward(const int64_t size[2], struct gpu_gradient dx, struct gpu_value x,
                         const float *dout, cudaStream_t stream); /* size: rows, inner */

#ifdef __cplusplus
}
#endif

#endif
