/* Arithmetic that loops over it vectorize: no calls, no branches, no tables. Included by fast.c
 * only.
 */
#ifndef KERNEL_CPU_FAST_MATH_H
#define KERNEL_CPU_FAST_MATH_H

#include <stdint.h>
#include <string.h>

/* exp(x) to about 2 units in the last place for -87 < x < 87; for -88.3 < x < 89 whatever is not
 * normal is 0 or infinite. NaN stays NaN.
 * Source: Cephes expf (Moshier 1992): x = n ln 2 + r, a polynomial in r, n put into the exponent.
 */
static inline float fast_exp_inside(float x)
{
    const float to_integer =
        12582912.0f; /* 1.5 * 2^23: adding it leaves round(x) in the low bits */
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

/* For all x: outside the range the result is that of its ends. Nothing becomes 0 or infinite, and
 * neither the result nor its inverse becomes denormal, which would cost a hundred cycles. */
static inline float fast_exp(float x)
{
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    return fast_exp_inside(x);
}

/* Shared by GELU and SiLU: x * sigmoid(u(x)). Below `lowest` u is so negative, about -88.6, that
 * its sigmoid is 0; above `highest`, about 87, it is 1. In between u is computed, so that no power
 * of x overflows. Without cancellation at either end: 1 - sigmoid is fall * sigmoid. */
static inline float fast_at_least(float x, float lowest)
{
    return x < lowest ? lowest : x;
}

static inline float fast_at_most(float x, float highest)
{
    return x > highest ? highest : x;
}

struct fast_sigmoid {
    float value, rest; /* of 1 */
};

static inline struct fast_sigmoid fast_sigmoid(float u)
{
    float fall = fast_exp_inside(-u), value = 1.0f / (1.0f + fall);
    return (struct fast_sigmoid){value, fast_at_most(fall, 3e38f) * value};
}

#endif
