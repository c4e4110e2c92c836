/* Products of few rows with a matrix in bf16, as in decoding. The matrix is read once, as it is,
 * since reading is slower than the arithmetic. With more rows, widening it for a product in float
 * pays: from about 8 rows on where b is turned, else from about 48.
 *
 * The loops declare their iterations independent: GCC does not see it once they are inlined.
 * Included by fast.c only.
 */
#ifndef KERNEL_CPU_FAST_FEW_H
#define KERNEL_CPU_FAST_FEW_H

#include <stdbool.h>

#include "libworker/kernel/kernel.h"
#include "libworker/precision/half.h"

enum {
    FEW_ROWS = 32, /* of c */
    FEW_TURNED = 8,
    FEW_AT_ONCE = 4, /* rows of b that are read at once */
};

static bool few_rows(const struct kernel_gemm_low *g)
{
    return g->m <= (g->transpose_b ? FEW_TURNED : FEW_ROWS) && g->type == WK_BF16;
}

static inline float few_left(const struct kernel_gemm_low *g, int64_t i, int64_t l)
{
    return f32_of_bf16(g->transpose_a ? g->a[l * g->lda + i] : g->a[i * g->lda + l]);
}

/* c[i] += rows l to l + n - 1 of b, each times its element of a. */
static void few_add(const struct kernel_gemm_low *g, int64_t i, int64_t l, int64_t n)
{
    float *restrict c = g->c + i * g->ldc;
    const uint16_t *restrict b = g->b + l * g->ldb;
    const int64_t ld = g->ldb;
    if (n == FEW_AT_ONCE) {
        const float a0 = few_left(g, i, l), a1 = few_left(g, i, l + 1);
        const float a2 = few_left(g, i, l + 2), a3 = few_left(g, i, l + 3);
#pragma omp simd
        for (int64_t j = 0; j < g->n; j++)
            c[j] += (a0 * f32_of_bf16(b[j]) + a1 * f32_of_bf16(b[ld + j])) +
                    (a2 * f32_of_bf16(b[2 * ld + j]) + a3 * f32_of_bf16(b[3 * ld + j]));
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        const float a = few_left(g, i, l + k);
#pragma omp simd
        for (int64_t j = 0; j < g->n; j++)
            c[j] += a * f32_of_bf16(b[k * ld + j]);
    }
}

/* c[i, j] += a[i] b[j], both rows in `left` and of a turned b. */
static void few_dot(const struct kernel_gemm_low *g, const float *restrict left, int64_t i,
                    int64_t j)
{
    const uint16_t *restrict b = g->b + j * g->ldb;
    const int64_t depth = g->k;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t l = 0; l < depth; l++)
        sum += left[l] * f32_of_bf16(b[l]);
    g->c[i * g->ldc + j] += sum;
}

/* `left` has room for FEW_TURNED times `most` elements; deeper products go in parts of it. */
static void few_turned(const struct kernel_gemm_low *g, float *left, int64_t most)
{
    for (int64_t l = 0; l < g->k; l += most) {
        struct kernel_gemm_low part = *g;
        part.k = g->k - l < most ? g->k - l : most;
        part.b = g->b + l;
        for (int64_t i = 0; i < g->m; i++) {
            for (int64_t d = 0; d < part.k; d++)
                left[i * most + d] = few_left(g, i, l + d);
        }
        for (int64_t j = 0; j < g->n; j++) {
            for (int64_t i = 0; i < g->m; i++)
                few_dot(&part, left + i * most, i, j);
        }
    }
}

static void few_product(const struct kernel_gemm_low *g, float *left, int64_t most)
{
    for (int64_t i = 0; i < g->m && !g->add; i++) {
        for (int64_t j = 0; j < g->n; j++)
            g->c[i * g->ldc + j] = 0;
    }
    if (g->transpose_b) {
        few_turned(g, left, most);
        return;
    }
    for (int64_t l = 0; l < g->k; l += FEW_AT_ONCE) {
        int64_t n = g->k - l < FEW_AT_ONCE ? g->k - l : FEW_AT_ONCE;
        for (int64_t i = 0; i < g->m; i++)
            few_add(g, i, l, n);
    }
}

#endif
