/* The part of the fast kernels that Llama adds. Included by fast.c only, which is
 * built once per instruction set.
 */
#ifndef KERNEL_CPU_FAST_LAYERS_H
#define KERNEL_CPU_FAST_LAYERS_H

#include <math.h>
#include <string.h>

#include "libworker/kernel/cpu/fast_math.h"
#include "libworker/kernel/kernel.h"

static void rms_forward(const struct kernel_norm *n, float *out)
{
    const float *restrict weight = n->weight;
    const int64_t width = n->width;
    for (int64_t r = 0; r < n->rows; r++) {
        const float *restrict x = n->x + r * width;
        float *restrict y = out + r * width;
        float square = 0;
#pragma omp simd reduction(+ : square)
        for (int64_t i = 0; i < width; i++)
            square += x[i] * x[i];
        float rstd = 1.0f / sqrtf(square / (float)width + n->epsilon);
        for (int64_t i = 0; i < width; i++)
            y[i] = x[i] * rstd * weight[i];
        n->rstd[r] = rstd;
    }
}

static void rms_backward(const struct kernel_norm *n, const float *dout, float *dx,
                         float *restrict dweight)
{
    const float *restrict weight = n->weight;
    const int64_t width = n->width;
    for (int64_t r = 0; r < n->rows; r++) {
        const float *restrict x = n->x + r * width;
        const float *restrict dy = dout + r * width;
        float *restrict d = dx + r * width;
        float rstd = n->rstd[r], sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; i++)
            sum += dy[i] * weight[i] * x[i];
        float mean = sum * rstd / (float)width;
        for (int64_t i = 0; i < width; i++) {
            float normal = x[i] * rstd;
            d[i] += (dy[i] * weight[i] - normal * mean) * rstd;
            dweight[i] += dy[i] * normal;
        }
    }
}

static void rope_vector(float *restrict a, float *restrict b, const float *restrict c,
                        const float *restrict s, const struct kernel_rope *o)
{
    const float sign = o->back ? -1.0f : 1.0f;
    const int64_t half = o->size / 2;
    for (int64_t i = 0; i < half; i++) {
        float first = a[i] * c[i] - b[i] * (sign * s[i]);
        b[i] = b[i] * c[i] + a[i] * (sign * s[i]);
        a[i] = first;
    }
}

static void rope(const struct kernel_rope *o, float *x)
{
    int64_t half = o->size / 2;
    for (int64_t r = 0; r < o->rows; r++) {
        int64_t angle = r % o->length * half;
        for (int64_t h = 0; h < o->heads; h++) {
            float *a = x + r * o->stride + h * o->size;
            rope_vector(a, a + half, o->cos + angle, o->sin + angle, o);
        }
    }
}

static void swiglu_forward(float *out, const float *x, int64_t rows, int64_t inner)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *restrict gate = x + r * 2 * inner;
        float *restrict y = out + r * inner;
        for (int64_t i = 0; i < inner; i++) {
            float v = fast_at_least(gate[i], FAST_SILU_LOWEST);
            y[i] = v * fast_sigmoid(fast_at_most(v, FAST_SILU_HIGHEST)).value * gate[inner + i];
        }
    }
}

static void swiglu_backward(float *dx, const float *x, const float *dout, const int64_t size[2])
{
    const int64_t inner = size[1];
    for (int64_t r = 0; r < size[0]; r++) {
        const float *restrict gate = x + r * 2 * inner;
        const float *restrict d = dout + r * inner;
        float *restrict dgate = dx + r * 2 * inner;
        float *restrict dup = dgate + inner;
        for (int64_t i = 0; i < inner; i++) {
            float v = fast_at_least(gate[i], FAST_SILU_LOWEST);
            float u = fast_at_most(v, FAST_SILU_HIGHEST);
            struct fast_sigmoid s = fast_sigmoid(u);
            float slope = s.value * (1.0f + u * s.rest);
            dgate[i] = d[i] * gate[inner + i] * slope;
            dup[i] = d[i] * (v * s.value);
        }
    }
}

#endif
