/* Products of one query with the keys and values of a head in place, for calls with too few queries
 * for copies to pay. Included by fast_attention.c only.
 */
#ifndef KERNEL_CPU_FAST_DIRECT_H
#define KERNEL_CPU_FAST_DIRECT_H

#include "libworker/kernel/attention.h"
#include "libworker/kernel/cpu/fast_rows.h"
#include "libworker/kernel/cpu/fast_vector.h"

/* A row of x in float, of whole vectors: in place, or in `room`, which has zeros right of it. */
static inline const float *direct_row(const struct rows *x, int64_t row, int64_t padded,
                                      float *room)
{
    const void *at = x->base + row * x->row_bytes;
    if (x->type == WK_F32 && x->bytes == padded * (int64_t)sizeof(float))
        return at;
    row_widen(room, at, x->type,
              x->bytes / (x->type == WK_F32 ? (int64_t)sizeof(float) : (int64_t)sizeof(uint16_t)));
    return room;
}

/* scores[n] of keys key0 to key0 + n - 1, n being a multiple of LANES; 0 for keys from `keys` on.
 * The lanes of LANES products are added up together. */
static void direct_scores(float *scores, const float *query, const struct rows *k,
                          const int64_t span[3], int64_t padded)
{
    const int64_t key0 = span[0], n = span[1], keys = span[2];
    float room[ATTENTION_SIZE_MAX] = {0};
    for (int64_t j = 0; j < n; j += LANES) {
        vec sums[LANES];
        for (int64_t i = 0; i < LANES; i++) {
            sums[i] = (vec){0};
            if (key0 + j + i >= keys)
                continue;
            rows_ask(k, key0 + j + i + ROWS_AHEAD);
            const float *row = direct_row(k, key0 + j + i, padded, room);
            for (int64_t d = 0; d < padded; d += LANES)
                sums[i] += vector_load(query + d) * vector_load(row + d);
        }
#pragma GCC unroll 4
        for (int64_t half = LANES / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
            for (int64_t i = 0; i < half; i++)
                sums[i] = INTERLEAVE_LOW(sums[i], sums[i + half]) +
                          INTERLEAVE_HIGH(sums[i], sums[i + half]);
        }
        vector_store(scores + j, sums[0]);
    }
}

enum { DIRECT_KEYS = 4 }; /* added at once, so that a sum is loaded and stored for each four */

/* sum[padded] += probs[n] times the values key0 to key0 + n - 1 of those before `keys`. */
static void direct_add(float *sum, const float *probs, const struct rows *v, const int64_t span[3],
                       int64_t padded)
{
    const int64_t key0 = span[0], n = span[1] < span[2] - key0 ? span[1] : span[2] - key0;
    float room[DIRECT_KEYS][ATTENTION_SIZE_MAX] = {0};
    for (int64_t j = 0, at_once; j < n; j += at_once) {
        const float *row[DIRECT_KEYS] = {NULL};
        at_once = n - j < DIRECT_KEYS ? 1 : DIRECT_KEYS;
        for (int64_t i = 0; i < at_once; i++) {
            rows_ask(v, key0 + j + i + ROWS_AHEAD);
            row[i] = direct_row(v, key0 + j + i, padded, room[i]);
        }
        for (int64_t d = 0; d < padded; d += LANES) {
            vec total = vector_load(sum + d);
            for (int64_t i = 0; i < at_once; i++)
                total += probs[j + i] * vector_load(row[i] + d);
            vector_store(sum + d, total);
        }
    }
}

#endif
