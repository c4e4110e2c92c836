/* Gradients of rows that were moved by their numbers: each row of the result sums the rows that
 * were copied from it, in their order, as the host does. Nothing needs to be zeroed before.
 *
 * Bytes that one element moves: 4 of each row that was copied from it, 4 of its own, 4 more where
 * it is added to. The numbers of a sample are read again for each row of the result, from the
 * caches.
 */
#ifndef CUDA_KERNELS_SCATTER_H
#define CUDA_KERNELS_SCATTER_H

#include "libworker/cuda/kernels/move.h"
#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* d[samples * rows, width] from dout[samples * n, width]: gpu_move_numbered's backward. */
void gpu_scatter_numbered(const struct gpu_numbered *numbered, struct gpu_gradient d,
                          const float *dout, int64_t width, cudaStream_t stream);

/* d[rows, width] from dout[samples * length, width]: gpu_move_placed's backward. */
void gpu_scatter_placed(const struct gpu_placed *placed, int64_t rows, struct gpu_gradient d,
                        const float *dout, int64_t width, cudaStream_t stream);

/* d[samples * length, width] from dout[samples * length * window, width]: gpu_move_window's. */
struct gpu_windows {
    int64_t rows, length, window, width; /* rows: samples * length */
};
void gpu_scatter_windows(const struct gpu_windows *windows, struct gpu_gradient d,
                         const float *dout, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
