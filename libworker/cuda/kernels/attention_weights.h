/* Scores of a tile of keys become weights, relative to the largest of the row. Device code. */
#ifndef CUDA_KERNELS_ATTENTION_WEIGHTS_H
#define CUDA_KERNELS_ATTENTION_WEIGHTS_H

#include <math.h>

#include "libworker/cuda/kernels/attention_place.h"

/* A lane's two queries while a block goes along keys. */
struct two_rows {
    int at[2]; /* of the sample; may be past the last */
    struct attention_span sees[2];
    float top[2], sum[2]; /* largest score so far; sum of weights, the lane's part of it */
};

template <int D>
static __device__ inline void scale_row(float (&out)[D / 8][4], int row, float factor)
{
    GPU_UNROLL
    for (int n = 0; n < D / 8; n++) {
        out[n][2 * row] *= factor;
        out[n][2 * row + 1] *= factor;
    }
}

/* Scores become weights relative to the largest so far; `out` follows. */
template <int COLS, int D>
static __device__ inline void weigh(struct two_rows *rows, float (&s)[COLS / 8][4],
                                    float (&out)[D / 8][4], int first_key, float scale)
{
    int key = first_key + 2 * (lane_index() % 4);
    GPU_UNROLL
    for (int i = 0; i < 2; i++) {
        float top = rows->top[i];
        GPU_UNROLL
        for (int n = 0; n < COLS / 8; n++) {
            GPU_UNROLL
            for (int e = 0; e < 2; e++) {
                bool seen = span_has(rows->sees[i], key + 8 * n + e);
                s[n][2 * i + e] = seen ? s[n][2 * i + e] : -INFINITY;
                top = fmaxf(top, s[n][2 * i + e]);
            }
        }
        top = quad_max(top);
        float from = top == -INFINITY ? 0 : top;
        float factor = rows->top[i] == -INFINITY ? 0 : exp2f((rows->top[i] - from) * scale);
        rows->top[i] = top;
        rows->sum[i] *= factor;
        scale_row<D>(out, i, factor);
        GPU_UNROLL
        for (int n = 0; n < COLS / 8; n++) {
            GPU_UNROLL
            for (int e = 0; e < 2; e++) {
                float x = s[n][2 * i + e];
                x = x == -INFINITY ? 0 : exp2f((x - from) * scale);
                rows->sum[i] += x;
                s[n][2 * i + e] = x;
            }
        }
    }
}

template <int COLS>
static __device__ inline void drop_keys(const struct attention_call *a, const struct block_place *p,
                                        const struct two_rows *rows, float (&s)[COLS / 8][4],
                                        int first_key)
{
    int key = first_key + 2 * (lane_index() % 4);
    GPU_UNROLL
    for (int i = 0; i < 2; i++) {
        uint64_t row = row_key(a, p->sample, p->head, rows->at[i]);
        GPU_UNROLL
        for (int n = 0; n < COLS / 8; n++) {
            s[n][2 * i] *= share_kept(a, row, key + 8 * n);
            s[n][2 * i + 1] *= share_kept(a, row, key + 8 * n + 1);
        }
    }
}

static __device__ inline struct two_rows two_rows_of(const struct attention_call *a,
                                                     const struct block_place *p)
{
    struct two_rows rows;
    for (int i = 0; i < 2; i++) {
        rows.at[i] = p->first + (int)threadIdx.x / WARP * 16 + lane_index() / 4 + 8 * i;
        rows.sees[i] = span_of(a, p->sample, int_smaller(rows.at[i], a->length - 1));
        rows.top[i] = -INFINITY;
        rows.sum[i] = 0;
    }
    return rows;
}

#endif
