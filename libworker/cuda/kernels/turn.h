/* Matrices that are turned, a tile of them at a time through shared memory: neither side is read or
 * written across memory lines. Part of move.h; for its launchers only.
 */
#ifndef CUDA_KERNELS_TURN_H
#define CUDA_KERNELS_TURN_H

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/move.h"

/* The result's dimensions, none of them 1, of which the last has no stride of 1, and another
 * has. */
void turn_matrices(const struct gpu_move *move, const struct gpu_turn *turn, cudaStream_t stream);

#endif
