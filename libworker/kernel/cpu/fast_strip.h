/* Products of a strip of rows; their sums stay in registers. Included by fast_attention.c only. */
#ifndef KERNEL_CPU_FAST_STRIP_H
#define KERNEL_CPU_FAST_STRIP_H

#include <stdbool.h>

#include "libworker/kernel/cpu/attention_tiles.h"
#include "libworker/kernel/cpu/fast_vector.h"

/* A strip of STRIP rows by VECTORS vectors fills most of the registers: 24 of 32 or 12 of 16. Each
 * step loads STRIP + VECTORS times for STRIP * VECTORS multiplications. */
enum {
    VECTORS = LANES == 16 ? 4 : 2,
    STRIP = ATTENTION_STRIP,
    WIDTH = LANES * VECTORS,
};

/* c[STRIP, n] += a[STRIP, depth] b[depth, n], or written if `fresh`. Element (i, l) of a is at
 * a[i * a_row + l * a_step], one of which is 1; rows of b and c are b_row and c_row apart. */
struct strip {
    const float *a, *b;
    float *c;
    int64_t a_row, a_step, b_row, c_row, depth;
    bool fresh;
};

static inline __attribute__((always_inline)) void strip_vectors(const struct strip *s, int n,
                                                                int64_t a_row, int64_t a_step)
{
    vec sums[STRIP][VECTORS];
    const float *a = s->a, *b = s->b;
    const int64_t b_row = s->b_row, c_row = s->c_row;
#pragma GCC unroll 6
    for (int i = 0; i < STRIP; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < n; j++)
            sums[i][j] = (vec){0};
    }
    for (int64_t l = 0; l < s->depth; l++) {
        vec right[VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < n; j++)
            right[j] = vector_load(b + j * LANES);
#pragma GCC unroll 6
        for (int i = 0; i < STRIP; i++) {
            vec left = a[i * a_row] - (vec){0};
#pragma GCC unroll 4
            for (int j = 0; j < n; j++)
                sums[i][j] += left * right[j];
        }
        a += a_step;
        b += b_row;
    }
    const bool fresh = s->fresh;
    float *c = s->c;
#pragma GCC unroll 6
    for (int i = 0; i < STRIP; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            float *at = c + i * c_row + j * LANES;
            if (!fresh)
                sums[i][j] += vector_load(at);
            vector_store(at, sums[i][j]);
        }
    }
}

/* The strip with n of VECTORS vectors. */
static void strip_product(const struct strip *s, int64_t n)
{
    const int64_t row = s->a_row, step = s->a_step;
    if (n == VECTORS && step == 1)
        strip_vectors(s, VECTORS, row, 1);
    else if (n == VECTORS)
        strip_vectors(s, VECTORS, 1, step);
    else if (n == 3)
        strip_vectors(s, 3 < VECTORS ? 3 : 1, row, step);
    else if (n == 2)
        strip_vectors(s, 2 < VECTORS ? 2 : 1, row, step);
    else
        strip_vectors(s, 1, row, step);
}

#endif
