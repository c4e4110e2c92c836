/* Inputs of a batch as values or as whole numbers in i32: floats are rounded, true is 1, a whole
 * number outside i32 becomes the nearest one in it.
 *
 * Bytes that one element moves: those of its type, and those of the result's.
 */
#ifndef CUDA_KERNELS_BATCH_VALUE_H
#define CUDA_KERNELS_BATCH_VALUE_H

#include "libworker/cuda/kernels/move.h"
#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* to[count] = from; `to` is in i32, f32, bf16 or f16. Without `from` it becomes 0. */
void gpu_batch_values(struct gpu_array to, struct gpu_array from, int64_t count,
                      cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
