/* How kernels get their arrays: an address in the device's memory and the type of its elements.
 * Kernels read the type at run time: all threads take the same branch, once for 16 bytes. Plain
 * data for C and C++.
 */
#ifndef CUDA_KERNELS_VALUE_H
#define CUDA_KERNELS_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

#include "libworker/cuda/stream.h"

struct gpu_value {
    void *at;           /* NULL: missing, or not wanted */
    enum wk_dtype type; /* WK_F32, WK_BF16 or WK_F16 */
};

/* A gradient in f32. */
struct gpu_gradient {
    float *at; /* NULL: not wanted */
    bool add;  /* to what is there; else all of it is overwritten */
};

#endif
