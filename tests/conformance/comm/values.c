#include "tests/conformance/comm/values.h"

#include <math.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t random_at(uint64_t seed, int rank, size_t i)
{
    return mix(mix(mix(seed) ^ (uint64_t)rank) ^ (uint64_t)i);
}

/* Independent of the library's conversions: by arithmetic. */
static double half_value(uint16_t half, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (half & 0x7fff) >> mantissa_bits;
    int mantissa = half & ((1 << mantissa_bits) - 1);
    double value = exponent == 0
                       ? ldexp(mantissa, 1 - bias - mantissa_bits)
                       : ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    return half & 0x8000 ? -value : value;
}

/* A random finite half with a magnitude in about 2^-7..2^1. */
static uint16_t random_half(uint64_t bits, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    uint64_t exponent = (uint64_t)bias - 7 + (bits >> 40) % 8;
    return (uint16_t)((bits & 1) << 15 | exponent << mantissa_bits |
                      ((bits >> 8) & ((1u << mantissa_bits) - 1)));
}

static float random_f32(uint64_t bits)
{
    return (float)((double)(int64_t)bits / 9.3e18 * ldexp(1, (int)(bits & 7)));
}

static double random_f64(uint64_t bits)
{
    return (double)(int64_t)bits / 9.3e18 * ldexp(1, (int)(bits & 15));
}

#define PUT(type, value)                                                                           \
    do {                                                                                           \
        type v = (type)(value);                                                                    \
        memcpy((char *)data + i * sizeof(v), &v, sizeof(v));                                       \
    } while (0)

void values_fill(void *data, size_t count, enum wk_dtype dtype, uint64_t seed, int rank)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_at(seed, rank, i);
        switch (dtype) {
        case WK_F32:
            PUT(float, random_f32(bits));
            break;
        case WK_F64:
            PUT(double, random_f64(bits));
            break;
        case WK_F16:
            PUT(uint16_t, random_half(bits, 5));
            break;
        case WK_BF16:
            PUT(uint16_t, random_half(bits, 8));
            break;
        case WK_I32:
            PUT(int32_t, bits);
            break;
        case WK_I64:
            PUT(int64_t, bits);
            break;
        case WK_U8:
            PUT(uint8_t, bits);
            break;
        }
    }
}

static int64_t whole(uint64_t bits, enum wk_dtype dtype)
{
    return dtype == WK_I32 ? (int32_t)bits : dtype == WK_U8 ? (uint8_t)bits : (int64_t)bits;
}

static int whole_reduced(const struct values_case *c, const void *data, size_t i, size_t index)
{
    enum wk_dtype dtype = c->dtype;
    enum wk_op op = c->op;
    int world = c->world;
    int64_t expected = whole(random_at(c->seed, 0, index), dtype), found;
    for (int r = 1; r < world; r++) {
        int64_t v = whole(random_at(c->seed, r, index), dtype);
        if (op == WK_SUM || op == WK_MEAN)
            expected = whole((uint64_t)expected + (uint64_t)v, dtype);
        else if (op == WK_MAX ? v > expected : v < expected)
            expected = v;
    }
    if (op == WK_MEAN)
        expected /= world;
    if (dtype == WK_I32)
        found = ((const int32_t *)data)[i];
    else if (dtype == WK_I64)
        found = ((const int64_t *)data)[i];
    else
        found = ((const uint8_t *)data)[i];
    return found == expected;
}

static double real(uint64_t bits, enum wk_dtype dtype)
{
    if (dtype == WK_F32)
        return (double)random_f32(bits);
    if (dtype == WK_F64)
        return random_f64(bits);
    return half_value(random_half(bits, dtype == WK_F16 ? 5 : 8), dtype == WK_F16 ? 5 : 8);
}

static double found_at(const void *data, size_t i, enum wk_dtype dtype)
{
    if (dtype == WK_F32)
        return (double)((const float *)data)[i];
    if (dtype == WK_F64)
        return ((const double *)data)[i];
    return half_value(((const uint16_t *)data)[i], dtype == WK_F16 ? 5 : 8);
}

/* Half a unit in the last place of the result, and what adding in f32 (f64) loses besides. */
static double tolerance(enum wk_dtype dtype, double value, double magnitude, int world)
{
    double sums = magnitude * world * (dtype == WK_F64 ? 0x1p-53 : 0x1p-24);
    if (dtype == WK_F16)
        return fabs(value) * 0x1p-11 + 0x1p-25 + sums;
    if (dtype == WK_BF16)
        return fabs(value) * 0x1p-8 + sums;
    return sums;
}

int values_reduced(const struct values_case *c, const void *data, size_t i, size_t index)
{
    enum wk_dtype dtype = c->dtype;
    enum wk_op op = c->op;
    int world = c->world;
    if (dtype == WK_I32 || dtype == WK_I64 || dtype == WK_U8)
        return whole_reduced(c, data, i, index);
    double expected = real(random_at(c->seed, 0, index), dtype);
    double magnitude = fabs(expected);
    for (int r = 1; r < world; r++) {
        double v = real(random_at(c->seed, r, index), dtype);
        magnitude += fabs(v);
        if (op == WK_SUM || op == WK_MEAN)
            expected += v;
        else if (op == WK_MAX ? v > expected : v < expected)
            expected = v;
    }
    if (op == WK_MEAN)
        expected /= world;
    double off = fabs(found_at(data, i, dtype) - expected);
    if (op == WK_MAX || op == WK_MIN)
        return off == 0;
    return off <= tolerance(dtype, expected, magnitude, world);
}

uint64_t values_hash(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}
