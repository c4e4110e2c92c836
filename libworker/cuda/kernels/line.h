/* Elements of values, one by one, and in lines of 16 bytes. For kernels only. */
#ifndef CUDA_KERNELS_LINE_H
#define CUDA_KERNELS_LINE_H

#include "libworker/cuda/gpu.h"

#include <string.h>

#include "libworker/cuda/kernels/value.h"

static __device__ __forceinline__ float value_of_bits(enum wk_dtype type, unsigned bits)
{
    if (type == WK_BF16)
        return __uint_as_float(bits << 16);
    uint16_t low = (uint16_t)bits;
    gpu_f16 half;
    memcpy(&half, &low, sizeof(half));
    return gpu_float(half);
}

/* To nearest even. */
static __device__ __forceinline__ unsigned bits_of_value(enum wk_dtype type, float value)
{
    uint16_t bits;
    if (type == WK_BF16) {
        gpu_bf16 half = gpu_from<gpu_bf16>(value);
        memcpy(&bits, &half, sizeof(bits));
    } else {
        gpu_f16 half = gpu_from<gpu_f16>(value);
        memcpy(&bits, &half, sizeof(bits));
    }
    return bits;
}

static __device__ __forceinline__ float value_read(struct gpu_value value, int64_t i)
{
    if (value.type == WK_F32)
        return ((const float *)value.at)[i];
    return value_of_bits(value.type, ((const uint16_t *)value.at)[i]);
}

static __device__ __forceinline__ void value_write(struct gpu_value value, int64_t i, float x)
{
    if (value.type == WK_F32)
        ((float *)value.at)[i] = x;
    else
        ((uint16_t *)value.at)[i] = (uint16_t)bits_of_value(value.type, x);
}

/* 16 bytes at an aligned address. The compiler cuts a plain store in four where another branch has
 * the stores of single elements. */
static __device__ __forceinline__ uint4 line_read(const void *at)
{
    return *(const uint4 *)at;
}

static __device__ __forceinline__ void line_write(void *at, uint4 line)
{
    __stcg((uint4 *)at, line);
}

static __device__ __forceinline__ void floats_read(const float *at, float ret[4])
{
    uint4 line = line_read(at);
    ret[0] = __uint_as_float(line.x);
    ret[1] = __uint_as_float(line.y);
    ret[2] = __uint_as_float(line.z);
    ret[3] = __uint_as_float(line.w);
}

static __device__ __forceinline__ void floats_write(float *at, const float x[4])
{
    uint4 line;
    line.x = __float_as_uint(x[0]);
    line.y = __float_as_uint(x[1]);
    line.z = __float_as_uint(x[2]);
    line.w = __float_as_uint(x[3]);
    line_write(at, line);
}

static __device__ __forceinline__ void halves_read(enum wk_dtype type, unsigned bits, float ret[2])
{
    ret[0] = value_of_bits(type, bits & 0xffff);
    ret[1] = value_of_bits(type, bits >> 16);
}

static __device__ __forceinline__ unsigned halves_of(enum wk_dtype type, const float x[2])
{
    return bits_of_value(type, x[0]) | bits_of_value(type, x[1]) << 16;
}

#endif
