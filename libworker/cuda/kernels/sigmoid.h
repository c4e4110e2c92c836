/* The sigmoid and its rest, which SiLU, SwiGLU and GELU by the tanh formula share. For kernels. */
#ifndef CUDA_KERNELS_SIGMOID_H
#define CUDA_KERNELS_SIGMOID_H

#include "libworker/cuda/gpu.h"

/* Without cancellation at either end: the rest is 1 - value. */
struct gpu_sigmoid {
    float value, rest;
};

static __device__ __forceinline__ struct gpu_sigmoid sigmoid_of(float x)
{
    float fall = expf(-x);
    struct gpu_sigmoid s;
    s.value = 1.0f / (1.0f + fall);
    s.rest = fall > 3e38f ? 1.0f : fall * s.value; /* infinity times 0 is not 1 */
    return s;
}

/* x * s, where s approaches 0 faster than x infinity. */
static __device__ __forceinline__ float share_of(float x, float s)
{
    return s == 0.0f ? 0.0f : x * s;
}

/* The slope of x * sigmoid(x). */
static __device__ __forceinline__ float silu_slope(float x, struct gpu_sigmoid s)
{
    return s.value + share_of(x, s.value * s.rest);
}

#endif
