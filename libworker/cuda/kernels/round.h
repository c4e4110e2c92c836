/* Rounding to bf16 by chance, with the bits of the host's bf16_of_f32_stochastic and noise_bits
 * (precision/half.h and noise.h, which name the sources). For kernels only.
 */
#ifndef CUDA_KERNELS_ROUND_H
#define CUDA_KERNELS_ROUND_H

#include "libworker/cuda/gpu.h"

static __device__ __forceinline__ uint64_t round_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* `noise` is a seed; `index` is the element's place in the model. */
static __device__ __forceinline__ uint16_t round_by_chance(float value, uint64_t noise,
                                                           uint64_t index)
{
    uint64_t key = round_mix(noise + 0x9e3779b97f4a7c15u);
    uint64_t hash = round_mix(key + (index + 1) * 0x9e3779b97f4a7c15u);
    uint32_t bits = __float_as_uint(value);
    uint32_t carried = bits + (uint32_t)(hash >> 32 & 0xffff);
    if ((carried & 0x7fffffff) >= 0x7f800000)
        carried = bits; /* a finite value stays finite */
    if ((bits & 0x7fffffff) > 0x7f800000)
        carried = bits | 0x400000; /* NaN stays, quiet */
    return (uint16_t)(carried >> 16);
}

#endif
