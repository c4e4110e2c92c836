/* Gradients of scores from those of probabilities, which are computed again. Device code. */
#ifndef CUDA_KERNELS_ATTENTION_SLOPES_H
#define CUDA_KERNELS_ATTENTION_SLOPES_H

#include <math.h>

#include "libworker/cuda/kernels/attention_place.h"

/* The first query from `low` on whose span ends after (`by_end`) or begins after key j. */
static __device__ inline int first_query(const struct attention_row *rows, int length, int j,
                                         bool by_end)
{
    int low = 0, high = length;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if ((by_end ? rows[middle].sees.end : rows[middle].sees.first) > j)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static __device__ inline struct attention_row row_facts(const struct attention_row *rows,
                                                        int length, int i)
{
    return i < length ? rows[i] : attention_row{0, 0, {0, 0}};
}

/* A probability before dropout, from a score. */
static __device__ inline float weight_of(const struct attention_call *a, float score,
                                         const struct attention_row *row, int key)
{
    return span_has(row->sees, key) ? exp2f((score * a->scale - row->lse) * LOG2_E) : 0;
}

/* Turned scores s[keys, queries] become probabilities after dropout, and ds the scores' gradients.
 */
template <int COLS>
static __device__ inline void
turned_slopes(const struct attention_call *a, const struct block_place *p, int64_t head,
              int first_query, float (&s)[COLS / 8][4], float (&ds)[COLS / 8][4])
{
    const struct attention_row *rows =
        (const struct attention_row *)a->scratch + (p->sample * a->heads + head) * a->length;
    int key = p->first + (int)threadIdx.x / WARP * 16 + lane_index() / 4;
    GPU_UNROLL
    for (int n = 0; n < COLS / 8; n++) {
        GPU_UNROLL
        for (int e = 0; e < 2; e++) {
            int query = first_query + 8 * n + 2 * (lane_index() % 4) + e;
            struct attention_row row = row_facts(rows, a->length, query);
            uint64_t drops = a->keep < 1 ? row_key(a, p->sample, head, query) : 0;
            GPU_UNROLL
            for (int i = 0; i < 2; i++) {
                float weight = weight_of(a, s[n][2 * i + e], &row, key + 8 * i);
                float share = a->keep < 1 ? share_kept(a, drops, key + 8 * i) : 1;
                float slope = weight * (share * ds[n][2 * i + e] - row.delta);
                ds[n][2 * i + e] = weight == 0 ? 0 : slope;
                s[n][2 * i + e] = weight * share;
            }
        }
    }
}

template <int N>
static __device__ inline void write_slopes(const struct attention_target *to, int64_t at,
                                           int64_t row, int rows, int columns,
                                           const float (&d)[N / 8][4], float factor)
{
    GPU_UNROLL
    for (int i = 0; i < 2; i++) {
        int r = (int)threadIdx.x / WARP * 16 + lane_index() / 4 + 8 * i;
        if (r >= rows)
            continue;
        int64_t line = at + r * row;
        GPU_UNROLL
        for (int n = 0; n < N / 8; n++) {
            GPU_UNROLL
            for (int e = 0; e < 2; e++) {
                int column = 8 * n + 2 * (lane_index() % 4) + e;
                float x = d[n][2 * i + e] * factor;
                if (column >= columns)
                    continue;
                x = to->add ? x + element_read(to->at, to->type, line + column) : x;
                element_write(to->at, to->type, line + column, x);
            }
        }
    }
}

/* Scores s[queries, keys] and dp become the scores' gradients, in dp. */
template <int COLS>
static __device__ inline void slopes(const struct attention_call *a, const struct block_place *p,
                                     int first_key, const float (&s)[COLS / 8][4],
                                     float (&dp)[COLS / 8][4])
{
    const struct attention_row *rows =
        (const struct attention_row *)a->scratch + (p->sample * a->heads + p->head) * a->length;
    int key = first_key + 2 * (lane_index() % 4);
    GPU_UNROLL
    for (int i = 0; i < 2; i++) {
        int query = p->first + (int)threadIdx.x / WARP * 16 + lane_index() / 4 + 8 * i;
        struct attention_row row = row_facts(rows, a->length, query);
        uint64_t drops = a->keep < 1 ? row_key(a, p->sample, p->head, query) : 0;
        GPU_UNROLL
        for (int n = 0; n < COLS / 8; n++) {
            GPU_UNROLL
            for (int e = 0; e < 2; e++) {
                float weight = weight_of(a, s[n][2 * i + e], &row, key + 8 * n + e);
                float share = a->keep < 1 ? share_kept(a, drops, key + 8 * n + e) : 1;
                float slope = weight * (share * dp[n][2 * i + e] - row.delta);
                dp[n][2 * i + e] = weight == 0 ? 0 : slope;
            }
        }
    }
}

#endif
