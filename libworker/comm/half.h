/* f16 and bf16 to f32 and back, rounding to nearest even; branch-free, so that loops vectorize.
 * IEEE 754-2008 binary16; bfloat16 is the upper half of an f32. NaN stays NaN, quiet.
 * Pure functions, any thread.
 */
#ifndef COMM_HALF_H
#define COMM_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float bf16_to_f32(uint16_t half)
{
    return f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t bf16_from_f32(float value)
{
    uint32_t bits = f32_bits(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

static inline float f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    uint32_t exponent = rest & 0x0f800000;
    uint32_t normal = rest + ((127 - 15) << 23);
    uint32_t special = normal + ((128 - 16) << 23);
    /* A subnormal is its mantissa in units of 2^-24: let a subtraction normalize it. */
    uint32_t subnormal =
        f32_bits(f32_from_bits(normal + (1 << 23)) - f32_from_bits((127 - 14) << 23));
    uint32_t bits = exponent == 0x0f800000 ? special : (exponent == 0 ? subnormal : normal);
    return f32_from_bits(bits | sign);
}

static inline uint16_t f16_from_f32(float value)
{
    const uint32_t subnormal_magic = ((127 - 15) + (23 - 10) + 1) << 23;
    uint32_t all = f32_bits(value);
    uint32_t sign = all & 0x80000000;
    uint32_t bits = all ^ sign;
    uint32_t special = bits > 0x7f800000 ? 0x7e00 : 0x7c00;
    /* Adding 0.5 leaves the rounded mantissa in the lowest bits. */
    uint32_t subnormal =
        f32_bits(f32_from_bits(bits) + f32_from_bits(subnormal_magic)) - subnormal_magic;
    uint32_t normal = (bits - ((uint32_t)(127 - 15) << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
    uint32_t half = bits < (113u << 23) ? subnormal : normal;
    half = bits >= (143u << 23) ? special : half;
    return (uint16_t)(half | sign >> 16);
}

#endif
