/* Arithmetic that loops over it vectorize: no calls, no branches, no tables. Included by fast.c and
 * fast_curves.c only.
 */
#ifndef KERNEL_CPU_FAST_MATH_H
#define KERNEL_CPU_FAST_MATH_H

#include <stdint.h>
#include <string.h>

/* A power of e in parts: (above + 1) * power, where power is one of 2. */
struct fast_power {
    float above, power;
};

/* 1.5 * 2^23: adding it leaves round(x) in the low bits. */
static const float FAST_TO_INTEGER = 12582912.0f, FAST_LOG2_E = 1.44269504088896341f;

/* exp(n ln 2 + r), where shifted is n + FAST_TO_INTEGER.
 * Source: Cephes expf (Moshier 1992): a polynomial in r, n put into the exponent. */
static inline struct fast_power fast_power_of(float shifted, float r)
{
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits << 23) + 0x3f800000u;
    float power;
    memcpy(&power, &bits, sizeof(power));
    return (struct fast_power){p, power};
}

/* x - n ln 2, where n ln 2 is near x. */
static inline float fast_less_integer(float x, float n)
{
    return (x - n * 0.693359375f) + n * 2.12194440e-4f;
}

static inline struct fast_power fast_power(float x)
{
    float shifted = x * FAST_LOG2_E + FAST_TO_INTEGER;
    return fast_power_of(shifted, fast_less_integer(x, shifted - FAST_TO_INTEGER));
}

/* Of x + low, where low is what x was rounded by. */
static inline struct fast_power fast_power_exact(float x, float low)
{
    float shifted = (x + low) * FAST_LOG2_E + FAST_TO_INTEGER;
    return fast_power_of(shifted, fast_less_integer(x, shifted - FAST_TO_INTEGER) + low);
}

/* exp(x) within 2 units of 2^-24 for -87 < x < 87; for -88.3 < x < 89 whatever is not normal is 0
 * or infinite. NaN stays NaN. */
static inline float fast_exp_inside(float x)
{
    struct fast_power e = fast_power(x);
    return (e.above + 1.0f) * e.power;
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

/* The ends of SiLU and of the sigmoid itself. */
static const float FAST_SILU_LOWEST = -88.6f, FAST_SILU_HIGHEST = 87.0f;

/* Lanes by hand: clang does not vectorize a maximum, as it might meet NaN. One hides here, but
 * shows in the exponentials. */
static inline float fast_row_max(const float *row, int64_t count)
{
    enum { LANES = 16 };
    float lanes[LANES];
    for (int64_t j = 0; j < LANES; j++)
        lanes[j] = row[j < count ? j : 0];
    int64_t i = LANES;
    for (; i + LANES <= count; i += LANES) {
        for (int64_t j = 0; j < LANES; j++)
            lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];
    }
    for (; i < count; i++)
        lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
    for (int64_t j = 1; j < LANES; j++)
        lanes[0] = lanes[j] > lanes[0] ? lanes[j] : lanes[0];
    return lanes[0];
}

#endif
