/* Arithmetic that loops over it vectorize: no calls, no branches, no tables. Included by fast.c
 * only.
 */
#ifndef KERNEL_CPU_FAST_MATH_H
#define KERNEL_CPU_FAST_MATH_H

#include <stdint.h>
#include <string.h>

/* exp(x) to about 2 units in the last place for -87 < x < 87; outside it stays at the ends of that
 * range, so nothing becomes 0 or infinite, nor does it or its inverse become denormal, which would
 * cost a hundred cycles. NaN stays NaN.
 * Source: Cephes expf (Moshier 1992): x = n ln 2 + r, a polynomial in r, n put into the exponent.
 */
static inline float fast_exp(float x)
{
    const float to_integer =
        12582912.0f; /* 1.5 * 2^23: adding it leaves round(x) in the low bits */
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    float shifted = x * 1.44269504088896341f + to_integer;
    float n = shifted - to_integer;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits << 23) + 0x3f800000u;
    float power;
    memcpy(&power, &bits, sizeof(power));
    return p * power;
}

/* x within [-most, most]; NaN stays. */
static inline float fast_within(float x, float most)
{
    x = x < -most ? -most : x;
    return x > most ? most : x;
}

/* What GELU and SiLU share: x * sigmoid(u(x)), where below -most the sigmoid is 0 as far as anyone
 * can tell, and above most it is 1. u is computed from fast_within(x, most), so that no power of x
 * overflows; `above` is x, but not below -most, where it would make an infinity of nothing. Without
 * cancellation at either end: 1 - sigmoid(u) is fall * sigmoid.
 */
struct fast_gate {
    float above, sigmoid, fall;
};

static inline struct fast_gate fast_gate(float x, float most, float u)
{
    float fall = fast_exp(-u), sigmoid = 1.0f / (1.0f + fall);
    return (struct fast_gate){x < -most ? -most : x, x < -most ? 0.0f : sigmoid, fall};
}

#endif
