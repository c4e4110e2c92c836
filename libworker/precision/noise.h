/* Random bits by position, for stochastic rounding: the bits at (key, index) are a hash, so any cut
 * of an array rounds the same. Pure; not for secrets. Source: SplitMix64 (Steele et al. 2014).
 */
#ifndef PRECISION_NOISE_H
#define PRECISION_NOISE_H

#include <stdint.h>

/* Kernels of a GPU call these functions, too. */
#ifdef __CUDACC__
#define NOISE_FUNCTION static __host__ __device__ inline
#else
#define NOISE_FUNCTION static inline
#endif

NOISE_FUNCTION uint64_t noise_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

NOISE_FUNCTION uint64_t noise_key(uint64_t seed)
{
    return noise_mix(seed + 0x9e3779b97f4a7c15u);
}

/* The seed of a training step's roundings. */
NOISE_FUNCTION uint64_t noise_of_step(uint64_t seed, int64_t step)
{
    return seed + noise_mix((uint64_t)step);
}

NOISE_FUNCTION uint32_t noise_bits(uint64_t key, uint64_t index)
{
    return (uint32_t)(noise_mix(key + (index + 1) * 0x9e3779b97f4a7c15u) >> 32);
}

#endif
