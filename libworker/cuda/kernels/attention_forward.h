/* The forward kernel of attention. Device code. */
#ifndef CUDA_KERNELS_ATTENTION_FORWARD_H
#define CUDA_KERNELS_ATTENTION_FORWARD_H

#include "libworker/cuda/kernels/attention_weights.h"

/* A row that sees no key is 0; one whose weights are all 0 otherwise is undefined. */
template <int D>
static __device__ inline void write_rows(const struct attention_call *a,
                                         const struct block_place *p, const struct two_rows *rows,
                                         const float (&out)[D / 8][4])
{
    GPU_UNROLL
    for (int i = 0; i < 2; i++) {
        float sum = quad_sum(rows->sum[i]);
        bool any = rows->sees[i].first < rows->sees[i].end;
        float factor = any ? 1 / sum : 0;
        if (rows->at[i] >= a->length)
            continue;
        int64_t row = (p->sample * a->heads + p->head) * a->length + rows->at[i];
        if (lane_index() % 4 == 0 && p->part == 0)
            a->lse[row] = any ? rows->top[i] * a->scale + logf(sum) : -INFINITY;
        int64_t at = p->sample * a->out.sample + rows->at[i] * a->out.row + p->head * a->size;
        GPU_UNROLL
        for (int n = 0; n < D / 8; n++) {
            int column = p->part * D + 8 * n + 2 * (lane_index() % 4);
            GPU_UNROLL
            for (int e = 0; e < 2; e++) {
                if (column + e < a->size)
                    element_write((void *)(uintptr_t)a->out.at, a->out.type, at + column + e,
                                  out[n][2 * i + e] * factor);
            }
        }
    }
}

/* While keys are multiplied, values are on their way, and the other way round. */
template <class E, int D>
static __global__ void __launch_bounds__(attention_sizes<E, D>::THREADS, 1)
    forward_kernel(const struct attention_call a)
{
    enum { OWN = attention_sizes<E, D>::OWN, COLS = attention_sizes<E, D>::FORWARD };
    enum { CHUNKS = attention_sizes<E, D>::CHUNKS, PARTS = attention_sizes<E, D>::ROW_PARTS };
    enum { PART = D / PARTS };
    GPU_SHARED(chunk, room, (OWN + 2 * COLS) * CHUNKS);
    chunk *q = room, *k = q + OWN * CHUNKS, *v = k + COLS * CHUNKS;
    struct block_place p = place_of(a.sample, a.heads, a.length, OWN, PARTS);
    int64_t kv_head = p.head / (a.heads / a.kv_heads);
    struct attention_span keys = block_span(&a, &p);
    struct two_rows rows = two_rows_of(&a, &p);
    float out[PART / 8][4] = {};
    tile_load<E, D>(q, OWN, source_of(&a, &a.q, &p, p.head, p.first, p.rows));
    tile_load<E, D>(k, COLS, source_of(&a, &a.k, &p, kv_head, keys.first, keys.end - keys.first));
    for (int j = keys.first; j < keys.end; j += COLS) {
        float s[COLS / 8][4] = {};
        copies_wait();
        __syncthreads();
        tile_load<E, D>(v, COLS, source_of(&a, &a.v, &p, kv_head, j, keys.end - j));
        E::template rows<D, COLS>(s, q, (int)threadIdx.x / WARP * 16, k);
        weigh<COLS, PART>(&rows, s, out, j, a.scale * LOG2_E);
        copies_wait();
        __syncthreads();
        if (j + COLS < keys.end)
            tile_load<E, D>(k, COLS,
                            source_of(&a, &a.k, &p, kv_head, j + COLS, keys.end - j - COLS));
        if (a.keep < 1)
            drop_keys<COLS>(&a, &p, &rows, s, j);
        E::template sums<D, COLS, PART>(out, s, v, p.part * PART);
    }
    copies_wait();
    write_rows<PART>(&a, &p, &rows, out);
}

#endif
