/* Quotients by a number that a launch knows: a product and a shift instead of a division of about
 * twenty instructions. Source: Granlund and Montgomery 1994, section 4, for dividends below 2^31.
 */
#ifndef CUDA_KERNELS_DIVIDER_H
#define CUDA_KERNELS_DIVIDER_H

#include "libworker/cuda/gpu.h"

struct divider {
    int64_t by;
    uint32_t factor;
    int shift;
};

/* By 1 for less. */
static inline struct divider divider_of(int64_t by)
{
    by = by < 1 ? 1 : by;
    struct divider d = {by, 0, 0};
    while (((int64_t)1 << d.shift) < by && d.shift < 31)
        d.shift++;
    if (by <= INT32_MAX)
        d.factor = (uint32_t)((((uint64_t)1 << (31 + d.shift)) + (uint64_t)by - 1) / (uint64_t)by);
    return d;
}

/* The quotient of n, which is not negative. */
static __device__ __forceinline__ int64_t divide(struct divider d, int64_t n)
{
    if (n > INT32_MAX || d.by > INT32_MAX)
        return n / d.by;
    return (int64_t)((uint64_t)(uint32_t)n * d.factor >> (31 + d.shift));
}

#endif
