/* f16 and bf16 to f32 and back, rounding to nearest even: branch-free, so that loops over them
 * vectorize. NaN stays NaN, quiet; what is too large becomes infinite.
 * Source: IEEE 754-2008 binary16; bfloat16 is the upper half of an f32. Pure, any thread.
 */
#ifndef PRECISION_HALF_H
#define PRECISION_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float f32_of_bf16(uint16_t half)
{
    return f32_of_bits((uint32_t)half << 16);
}

static inline uint16_t bf16_of_f32(float value)
{
    uint32_t bits = bits_of_f32(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

/* Up with a chance equal to the part cut off, so that the mean over `random` (16 random bits) is
 * the value itself. A finite value stays finite. Source: Gupta et al. 2015, section 3.
 */
static inline uint16_t bf16_of_f32_stochastic(float value, uint32_t random)
{
    uint32_t bits = bits_of_f32(value);
    uint32_t carried = bits + (random & 0xffff);
    uint32_t quiet_nan = bits | 0x400000;
    carried = (carried & 0x7fffffff) >= 0x7f800000 ? bits : carried;
    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : carried) >> 16);
}

static inline float f32_of_f16(uint16_t half)
{
    const uint32_t up = (uint32_t)(127 - 15) << 23;
    uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    uint32_t exponent = rest & 0x0f800000;
    /* A subnormal is its mantissa in units of 2^-24: a subtraction normalizes it. */
    uint32_t small = bits_of_f32(f32_of_bits(rest + up + (1 << 23)) - f32_of_bits(up + (1 << 23)));
    uint32_t large = rest + up + (exponent == 0x0f800000 ? up : 0);
    large |= (rest > 0x0f800000) << 22;
    return f32_of_bits((exponent ? large : small) | (uint32_t)(half & 0x8000) << 16);
}

static inline uint16_t f16_of_f32(float value)
{
    const uint32_t down = (uint32_t)(127 - 15) << 23;
    const uint32_t magic = (uint32_t)(127 - 1) << 23; /* 0.5: its last bit is worth 2^-24 */
    uint32_t bits = bits_of_f32(value) & 0x7fffffff;
    uint32_t sign = bits_of_f32(value) >> 16 & 0x8000;
    uint32_t small = bits_of_f32(f32_of_bits(bits) + f32_of_bits(magic)) - magic;
    uint32_t normal = (bits - down + 0xfff + ((bits >> 13) & 1)) >> 13;
    uint32_t special = bits > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t half = bits < (113u << 23) ? small : normal;
    return (uint16_t)((bits >= (143u << 23) ? special : half) | sign);
}

#endif
