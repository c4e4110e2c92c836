/* exp in double, as fast_math.h has it in float. Included by fast_curves.c only. */
#ifndef KERNEL_CPU_FAST_DOUBLE_H
#define KERNEL_CPU_FAST_DOUBLE_H

#include <stdint.h>
#include <string.h>

/* exp(x) in double within 2^-46 for x up to 88; 0 below -700, where it is about denormal. NaN stays
 * NaN. Taylor's polynomial, n put into the exponent as above. */
static inline double fast_exp_double(double x)
{
    const double to_integer = 6755399441055744.0; /* 1.5 * 2^52, as above */
    double inside = x < -700.0 ? -700.0 : x, shifted = inside * 1.4426950408889634 + to_integer;
    double n = shifted - to_integer;
    double r = (inside - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits << 52) + 0x3ff0000000000000u;
    double power;
    memcpy(&power, &bits, sizeof(power));
    return x < -700.0 ? 0.0 : p * power;
}

#endif
