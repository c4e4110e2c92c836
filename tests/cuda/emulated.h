/* Stands in for nvcc's built-in names where kernels are compiled as C++ for the CPU: see
 * libworker/cuda/gpu.h, which includes this file, and emulated/emulated.h. Names and meanings are
 * those of the CUDA C++ Programming Guide 13.0; what is not here, kernels do not use. There is no
 * atomic sum of floats: results are the same bits on every run.
 */
#ifndef CUDA_EMULATED_H
#define CUDA_EMULATED_H

#include <stddef.h>
#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define GPU_UNROLL

#include "tests/cuda/emulated/lane.h"
#include "tests/cuda/emulated/types.h"
#include "tests/cuda/emulated/arithmetic.h"
#include "tests/cuda/emulated/warp.h"
#include "tests/cuda/emulated/mma.h"
#include "tests/cuda/emulated/launch.h"

#define threadIdx (emulated_now->thread)
#define blockIdx  (emulated_now->block_index)
#define blockDim  (emulated_now->grid->block)
#define gridDim   (emulated_now->grid->grid)

/* An array of shared memory, and what the launch asked for. */
#define GPU_SHARED(type, name, count)                                                              \
    static const char name##_tag = 0;                                                              \
    type(&name)[count] =                                                                           \
        *static_cast<type(*)[count]>(emulated_shared(&name##_tag, sizeof(type[count]), #name))
#define GPU_SHARED_DYNAMIC(type, name) type *name = static_cast<type *>(emulated_shared_dynamic())

#define GPU_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                 \
    emulated_launch_kernel(kernel, #kernel, {grid, block, (size_t)(shared_bytes)}, stream,         \
                           ##__VA_ARGS__)

#endif
