/* Vectors of the compiler's own types, as wide as the instruction set that the file including this
 * is built for. Pure. Included by fast_attention.c only. */
#ifndef KERNEL_CPU_FAST_VECTOR_H
#define KERNEL_CPU_FAST_VECTOR_H

#include <stdint.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float vec_at __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef uint32_t bits __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t))));

static inline vec vector_load(const float *x)
{
    return *(const vec_at *)x;
}

static inline void vector_store(float *x, vec value)
{
    *(vec_at *)x = value;
}

/* By lane; b where either is NaN, as the instruction has it. */
static inline vec vector_larger(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    ints larger = a > b;
    return (vec)(((ints)a & larger) | ((ints)b & ~larger));
#endif
}

/* Interleaved lower and upper halves. Doing so with the first and second half of n vectors log2(n)
 * times transposes them. */
#if defined(__AVX512F__)
#define INTERLEAVE_LOW(a, b)                                                                       \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b)                                                                      \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif defined(__AVX2__)
#define INTERLEAVE_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define INTERLEAVE_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* Of all lanes: the sum, of halves each time; and the largest. */
static inline float vector_total(vec x)
{
#pragma GCC unroll 4
    for (int n = 1; n < LANES; n *= 2)
        x = INTERLEAVE_LOW(x, x) + INTERLEAVE_HIGH(x, x);
    return x[0];
}

static inline float vector_largest(vec x)
{
#pragma GCC unroll 4
    for (int n = 1; n < LANES; n *= 2)
        x = vector_larger(INTERLEAVE_LOW(x, x), INTERLEAVE_HIGH(x, x));
    return x[0];
}

/* 2^u for u up to 127, within 2 units of the last place; 0 below -125, where it is about denormal.
 * NaN stays NaN. Source: Cephes exp2f (Moshier 1992), with n put into the exponent. */
static inline vec vector_power(vec u)
{
    const vec zero = {0}, to_integer = zero + 12582912.0f; /* 1.5 * 2^23, as in fast_math.h */
    vec shifted = u + to_integer, r = u - (shifted - to_integer);
    vec p = r * 1.535336188319500e-4f + 1.339887440266574e-3f;
    p = p * r + 9.618437357674640e-3f;
    p = p * r + 5.550332471162809e-2f;
    p = p * r + 2.402264791363012e-1f;
    p = p * r + 6.931472028550421e-1f;
    p = p * r + 1.0f;
    vec power = (vec)(((bits)shifted << 23) + 0x3f800000u);
    return (vec)((ints)(p * power) & ~(u < zero - 125.0f));
}

/* to[LANES, LANES] with rows to_row apart from x[LANES, LANES]; the first `rows` of it. */
static void vector_transpose(float *to, int64_t to_row, const float *x, int64_t x_row, int64_t rows)
{
    vec a[LANES], b[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        a[i] = vector_load(x + i * x_row);
#pragma GCC unroll 4
    for (int n = 1; n < LANES; n *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = INTERLEAVE_LOW(a[i], a[i + LANES / 2]);
            b[2 * i + 1] = INTERLEAVE_HIGH(a[i], a[i + LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            a[i] = b[i];
    }
    for (int i = 0; i < LANES && i < rows; i++)
        vector_store(to + i * to_row, a[i]);
}

#endif
