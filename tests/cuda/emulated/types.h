/* Vectors and the types of 16 bits, as CUDA's headers have them. C++. */
#ifndef EMULATED_TYPES_H
#define EMULATED_TYPES_H

#include <stdint.h>

#include "libworker/precision/half.h"

typedef struct CUstream_st *cudaStream_t;

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
inline int2 make_int2(int x, int y)
{
    return {x, y};
}
inline int4 make_int4(int x, int y, int z, int w)
{
    return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

/* No arithmetic: kernels compute in float. */
struct __nv_bfloat16 {
    uint16_t bits;
};
struct __half {
    uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
struct alignas(4) __half2 {
    __half x, y;
};

/* To nearest even; NaN becomes CUDA's own. */
inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    return {value == value ? bf16_of_f32(value) : (uint16_t)0x7fff};
}
inline __nv_bfloat16 __float2bfloat16(float value)
{
    return __float2bfloat16_rn(value);
}
inline float __bfloat162float(__nv_bfloat16 value)
{
    return f32_of_bf16(value.bits);
}
inline __half __float2half_rn(float value)
{
    return {value == value ? f16_of_f32(value) : (uint16_t)0x7fff};
}
inline __half __float2half(float value)
{
    return __float2half_rn(value);
}
inline float __half2float(__half value)
{
    return f32_of_f16(value.bits);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 value)
{
    return {__bfloat162float(value.x), __bfloat162float(value.y)};
}
inline __half2 __floats2half2_rn(float x, float y)
{
    return {__float2half_rn(x), __float2half_rn(y)};
}
inline float2 __half22float2(__half2 value)
{
    return {__half2float(value.x), __half2float(value.y)};
}

#endif
