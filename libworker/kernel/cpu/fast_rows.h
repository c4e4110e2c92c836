/* Rows of one head in the caller's arrays, widened to float and rounded back. Included by
 * fast_attention.c only.
 */
#ifndef KERNEL_CPU_FAST_ROWS_H
#define KERNEL_CPU_FAST_ROWS_H

#include <string.h>

#include <worker/types.h>

#include "libworker/precision/half.h"

enum { ROWS_AHEAD = 16 }; /* requested while rows are copied */

/* An array of the caller as rows of one head. */
struct rows {
    char *base;
    enum wk_dtype type;
    int64_t row_bytes, bytes; /* from one to the next; of one */
};

/* Request a row: rows are far apart, so that the processor does not see what follows. An address
 * past the array's end is harmless. */
static void rows_ask(const struct rows *x, int64_t row)
{
    uintptr_t at = (uintptr_t)x->base + (uintptr_t)(row * x->row_bytes);
    for (int64_t byte = 0; byte < x->bytes; byte += 64)
        __builtin_prefetch((const void *)(at + (uintptr_t)byte), 0, 3);
}

static void row_widen(float *restrict to, const void *x, enum wk_dtype type, int64_t count)
{
    if (type == WK_F32) {
        memcpy(to, x, (size_t)count * sizeof(*to));
    } else if (type == WK_BF16) {
        const uint16_t *restrict half = x;
        for (int64_t i = 0; i < count; i++)
            to[i] = f32_of_bf16(half[i]);
    } else {
        const uint16_t *restrict half = x;
        for (int64_t i = 0; i < count; i++)
            to[i] = f32_of_f16(half[i]);
    }
}

static void row_narrow(void *to, enum wk_dtype type, const float *restrict x, int64_t count)
{
    if (type == WK_F32) {
        memcpy(to, x, (size_t)count * sizeof(*x));
    } else if (type == WK_BF16) {
        uint16_t *restrict half = to;
        for (int64_t i = 0; i < count; i++)
            half[i] = bf16_of_f32(x[i]);
    } else {
        uint16_t *restrict half = to;
        for (int64_t i = 0; i < count; i++)
            half[i] = f16_of_f32(x[i]);
    }
}

#endif
