#include "tests/conformance/comm/values.h"

#include <math.h>
#include <string.h>

/* The tests spend most of their time here: whatever does not change from element to element is
 * decided outside of the loops. */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* mix(key ^ i) are the random bits of element i. */
static uint64_t key_of(uint64_t seed, int rank)
{
    return mix(mix(seed) ^ (uint64_t)rank);
}

/* Independent of the library's conversions: the same digits in a double. */
static inline double half_value(uint16_t half, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (half & 0x7fff) >> mantissa_bits;
    int mantissa = half & ((1 << mantissa_bits) - 1);
    double value = mantissa * (exponent_bits == 5 ? 0x1p-24 : 0x1p-133);
    if (exponent > 0) {
        uint64_t bits = (uint64_t)(exponent - bias + 1023) << 52 | (uint64_t)mantissa
                                                                       << (52 - mantissa_bits);
        memcpy(&value, &bits, sizeof(value));
    }
    return half & 0x8000 ? -value : value;
}

/* A random finite half with a magnitude in about 2^-7..2^1. */
static inline uint16_t random_half(uint64_t bits, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    uint64_t exponent = (uint64_t)bias - 7 + (bits >> 40) % 8;
    return (uint16_t)((bits & 1) << 15 | exponent << mantissa_bits |
                      ((bits >> 8) & ((1u << mantissa_bits) - 1)));
}

static inline double random_f64(uint64_t bits, unsigned powers)
{
    return (double)(int64_t)bits * (1 / 9.3e18) * (double)(1u << (bits % powers));
}

static inline float random_f32(uint64_t bits)
{
    return (float)random_f64(bits, 8);
}

#define FILL(type, value)                                                                          \
    for (size_t i = 0; i < count; i++) {                                                           \
        uint64_t bits = mix(key ^ i);                                                              \
        ((type *)data)[i] = (type)(value);                                                         \
    }                                                                                              \
    break

void values_fill(void *data, size_t count, enum wk_dtype dtype, uint64_t seed, int rank)
{
    uint64_t key = key_of(seed, rank);
    switch (dtype) {
    case WK_F32:
        FILL(float, random_f32(bits));
    case WK_F64:
        FILL(double, random_f64(bits, 16));
    case WK_F16:
        FILL(uint16_t, random_half(bits, 5));
    case WK_BF16:
        FILL(uint16_t, random_half(bits, 8));
    case WK_I32:
        FILL(int32_t, bits);
    case WK_I64:
        FILL(int64_t, bits);
    case WK_U8:
        FILL(uint8_t, bits);
    case WK_BOOL:
        FILL(uint8_t, bits & 1);
    }
}

/* What a reduction is made of. */
struct summands {
    uint64_t keys[VALUES_WORLD_MAX];
    enum wk_op op;
    int world;
    size_t first, count;
    const void *data;
};

static inline int64_t whole(uint64_t bits, enum wk_dtype dtype)
{
    return dtype == WK_I32 ? (int32_t)bits : dtype == WK_U8 ? (uint8_t)bits : (int64_t)bits;
}

static inline int64_t whole_at(const void *data, size_t i, enum wk_dtype dtype)
{
    if (dtype == WK_I32)
        return ((const int32_t *)data)[i];
    return dtype == WK_I64 ? ((const int64_t *)data)[i] : ((const uint8_t *)data)[i];
}

static inline bool wholes_reduced(const struct summands *s, enum wk_dtype dtype)
{
    for (size_t i = 0; i < s->count; i++) {
        int64_t expected = whole(mix(s->keys[0] ^ (s->first + i)), dtype);
        for (int r = 1; r < s->world; r++) {
            int64_t v = whole(mix(s->keys[r] ^ (s->first + i)), dtype);
            if (s->op == WK_SUM || s->op == WK_MEAN)
                expected = whole((uint64_t)expected + (uint64_t)v, dtype);
            else if (s->op == WK_MAX ? v > expected : v < expected)
                expected = v;
        }
        if (s->op == WK_MEAN)
            expected /= s->world;
        if (whole_at(s->data, i, dtype) != expected)
            return false;
    }
    return true;
}

static inline double real(uint64_t bits, enum wk_dtype dtype)
{
    if (dtype == WK_F32)
        return (double)random_f32(bits);
    if (dtype == WK_F64)
        return random_f64(bits, 16);
    return half_value(random_half(bits, dtype == WK_F16 ? 5 : 8), dtype == WK_F16 ? 5 : 8);
}

static inline double real_at(const void *data, size_t i, enum wk_dtype dtype)
{
    if (dtype == WK_F32)
        return (double)((const float *)data)[i];
    if (dtype == WK_F64)
        return ((const double *)data)[i];
    return half_value(((const uint16_t *)data)[i], dtype == WK_F16 ? 5 : 8);
}

/* Half a unit in the last place of the result, and what adding in f32 (f64) loses besides. */
static inline double tolerance(enum wk_dtype dtype, double value, double magnitude, int world)
{
    double sums = magnitude * world * (dtype == WK_F64 ? 0x1p-53 : 0x1p-24);
    if (dtype == WK_F16)
        return fabs(value) * 0x1p-11 + 0x1p-25 + sums;
    if (dtype == WK_BF16)
        return fabs(value) * 0x1p-8 + sums;
    return sums;
}

static inline bool reals_reduced(const struct summands *s, enum wk_dtype dtype)
{
    for (size_t i = 0; i < s->count; i++) {
        double expected = real(mix(s->keys[0] ^ (s->first + i)), dtype);
        double magnitude = fabs(expected), allowed = 0;
        for (int r = 1; r < s->world; r++) {
            double v = real(mix(s->keys[r] ^ (s->first + i)), dtype);
            magnitude += fabs(v);
            if (s->op == WK_SUM || s->op == WK_MEAN)
                expected += v;
            else
                expected = (s->op == WK_MAX ? v > expected : v < expected) ? v : expected;
        }
        if (s->op == WK_MEAN)
            expected /= s->world;
        if (s->op == WK_SUM || s->op == WK_MEAN)
            allowed = tolerance(dtype, expected, magnitude, s->world);
        if (!(fabs(real_at(s->data, i, dtype) - expected) <= allowed))
            return false;
    }
    return true;
}

bool values_reduced(const struct values_case *c, const void *data, size_t count, size_t first)
{
    struct summands s = {
        .op = c->op, .world = c->world, .first = first, .count = count, .data = data};
    for (int r = 0; r < c->world; r++)
        s.keys[r] = key_of(c->seed, r);
    switch (c->dtype) {
    case WK_F32:
        return reals_reduced(&s, WK_F32);
    case WK_F64:
        return reals_reduced(&s, WK_F64);
    case WK_F16:
        return reals_reduced(&s, WK_F16);
    case WK_BF16:
        return reals_reduced(&s, WK_BF16);
    case WK_I32:
        return wholes_reduced(&s, WK_I32);
    case WK_I64:
        return wholes_reduced(&s, WK_I64);
    case WK_U8:
        return wholes_reduced(&s, WK_U8);
    case WK_BOOL:
        break; /* is not reduced */
    }
    return false;
}

/* Each word takes a bijective step: one other word, another hash. */
static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    return ((hash << 29 | hash >> 35) ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t values_hash(uint64_t hash, const void *data, size_t bytes)
{
    const char *at = data;
    uint64_t word = 0;
    for (; bytes >= sizeof(word); bytes -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = hash_word(hash, word);
    }
    word = 0;
    memcpy(&word, at, bytes);
    return bytes ? hash_word(hash, word) : hash;
}
