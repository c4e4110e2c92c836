/* For programs with CUDA kernels of their own, compiled as C++ over the emulation: what of CUDA's
 * header of this name they use, and their main under another name. */
#ifndef TOOLKIT_CUDA_RUNTIME_H
#define TOOLKIT_CUDA_RUNTIME_H

#include <math.h>

#include "tests/cuda/emulated.h"

enum { cudaSuccess = 0 };

extern "C" {
int cudaMalloc(void **memory, size_t bytes);
int cudaFree(void *memory);

int program_main(int argc, char **argv);
}

#define main program_main
#define LAUNCH(kernel, grid, block, stream, ...)                                                   \
    GPU_LAUNCH(kernel, dim3(grid), dim3(block), 0, stream, __VA_ARGS__)

#endif
