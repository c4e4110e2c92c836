/* The two 8-bit formats: E4M3 (largest 448, no infinities, NaN is S.1111.111) and E5M2 (largest
 * 57344, laid out like the upper half of an f16). Rounding is to nearest even and saturates: what
 * is too large, infinities included, becomes the largest finite value; NaN stays NaN.
 * Source: OCP 8-bit Floating Point Specification 1.0, sections 5.1 and 5.2. Pure, any thread.
 */
#ifndef PRECISION_FLOAT8_H
#define PRECISION_FLOAT8_H

#include "libworker/precision/half.h"

enum {
    E4M3_MANTISSA = 3,
    E4M3_BIAS = 7,
    E4M3_LARGEST = 0x7e, /* the code of 448 */
    E5M2_MANTISSA = 2,
    E5M2_BIAS = 15,
    E5M2_LARGEST = 0x7b, /* of 57344 */
    FLOAT8_NAN = 0x7f,   /* in both */
};

static inline uint8_t float8_of_f32(float value, int mantissa, int bias, uint32_t largest)
{
    const int cut = 23 - mantissa;
    uint32_t bits = bits_of_f32(value) & 0x7fffffff;
    uint32_t sign = bits_of_f32(value) >> 24 & 0x80;
    /* The power of two with a last bit worth the smallest subnormal, so that adding it rounds. */
    const uint32_t magic = (uint32_t)(127 + 1 - bias - mantissa + 23) << 23;
    uint32_t small = bits_of_f32(f32_of_bits(bits) + f32_of_bits(magic)) - magic;
    uint32_t normal = bits - ((uint32_t)(127 - bias) << 23) + ((1u << (cut - 1)) - 1);
    normal = (normal + ((bits >> cut) & 1)) >> cut;
    uint32_t code = bits < ((uint32_t)(127 + 1 - bias) << 23) ? small : normal;
    code = code > largest ? largest : code;
    return (uint8_t)((bits > 0x7f800000 ? FLOAT8_NAN : code) | sign);
}

static inline float float8_magnitude(uint32_t code, int mantissa, int bias)
{
    const float unit = f32_of_bits((uint32_t)(127 + 1 - bias - mantissa) << 23);
    float small = (float)code * unit;
    float normal = f32_of_bits((code << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23));
    return code >> mantissa ? normal : small;
}

static inline uint8_t e4m3_of_f32(float value)
{
    return float8_of_f32(value, E4M3_MANTISSA, E4M3_BIAS, E4M3_LARGEST);
}

static inline uint8_t e5m2_of_f32(float value)
{
    return float8_of_f32(value, E5M2_MANTISSA, E5M2_BIAS, E5M2_LARGEST);
}

static inline float f32_of_e4m3(uint8_t half)
{
    uint32_t code = half & 0x7f, sign = (uint32_t)(half & 0x80) << 24;
    float value = float8_magnitude(code, E4M3_MANTISSA, E4M3_BIAS);
    uint32_t bits = code > E4M3_LARGEST ? 0x7fc00000 : bits_of_f32(value);
    return f32_of_bits(bits | sign);
}

static inline float f32_of_e5m2(uint8_t half)
{
    uint32_t code = half & 0x7f, sign = (uint32_t)(half & 0x80) << 24;
    float value = float8_magnitude(code, E5M2_MANTISSA, E5M2_BIAS);
    uint32_t special = code == E5M2_LARGEST + 1 ? 0x7f800000 : 0x7fc00000;
    uint32_t bits = code > E5M2_LARGEST ? special : bits_of_f32(value);
    return f32_of_bits(bits | sign);
}

#endif
