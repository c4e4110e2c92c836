/* The backward kernels of attention. Device code. */
#ifndef CUDA_KERNELS_ATTENTION_BACKWARD_H
#define CUDA_KERNELS_ATTENTION_BACKWARD_H

#include "libworker/cuda/kernels/attention_slopes.h"

/* dk and dv of a block's keys, or a part of their columns. */
template <class E, int D>
static __global__ void __launch_bounds__(attention_sizes<E, D>::THREADS, 1)
    keys_kernel(const struct attention_call a)
{
    enum { OWN = attention_sizes<E, D>::OWN, COLS = attention_sizes<E, D>::OTHER };
    enum { CHUNKS = attention_sizes<E, D>::CHUNKS, PARTS = attention_sizes<E, D>::KEY_PARTS };
    enum { PART = D / PARTS };
    GPU_SHARED(chunk, room, 2 * (OWN + COLS) * CHUNKS);
    chunk *k = room, *v = k + OWN * CHUNKS, *q = v + OWN * CHUNKS, *dout = q + COLS * CHUNKS;
    struct block_place p = place_of(a.sample, a.kv_heads, a.keys, OWN, PARTS);
    int64_t group = a.heads / a.kv_heads;
    int own = (int)threadIdx.x / WARP * 16, from = p.part * PART;
    float dk[PART / 8][4] = {}, dv[PART / 8][4] = {};
    tile_load<E, D>(k, OWN, source_of(&a, &a.k, &p, p.head, p.first, p.rows));
    tile_load<E, D>(v, OWN, source_of(&a, &a.v, &p, p.head, p.first, p.rows));
    const struct attention_row *facts =
        (const struct attention_row *)a.scratch + p.sample * a.heads * a.length;
    int first = first_query(facts, a.length, p.first, true);
    int end = first_query(facts, a.length, p.first + p.rows - 1, false);
    for (int64_t head = p.head * group; head < (p.head + 1) * group; head++) {
        for (int i = first; i < end; i += COLS) {
            float s[COLS / 8][4] = {}, ds[COLS / 8][4] = {};
            __syncthreads();
            tile_load<E, D>(q, COLS, source_of(&a, &a.q, &p, head, i, end - i));
            tile_load<E, D>(dout, COLS, source_of(&a, &a.dout, &p, head, i, end - i));
            copies_wait();
            __syncthreads();
            E::template rows<D, COLS>(s, k, own, q);
            E::template rows<D, COLS>(ds, v, own, dout);
            turned_slopes<COLS>(&a, &p, head, i, s, ds);
            E::template sums<D, COLS, PART>(dv, s, dout, from);
            E::template sums<D, COLS, PART>(dk, ds, q, from);
        }
    }
    copies_wait();
    int columns = int_smaller(PART, a.size - from);
    int64_t at = p.sample * a.k.sample + p.first * a.k.row + p.head * a.size + from;
    write_slopes<PART>(&a.dk, at, a.k.row, p.rows, columns, dk, a.scale);
    at = p.sample * a.v.sample + p.first * a.v.row + p.head * a.size + from;
    write_slopes<PART>(&a.dv, at, a.v.row, p.rows, columns, dv, 1);
}

/* dq of a block's queries. */
template <class E, int D>
static __global__ void __launch_bounds__(attention_sizes<E, D>::THREADS, 1)
    queries_kernel(const struct attention_call a)
{
    enum { OWN = attention_sizes<E, D>::OWN, COLS = attention_sizes<E, D>::OTHER };
    enum { CHUNKS = attention_sizes<E, D>::CHUNKS, PARTS = attention_sizes<E, D>::ROW_PARTS };
    enum { PART = D / PARTS };
    GPU_SHARED(chunk, room, 2 * (OWN + COLS) * CHUNKS);
    chunk *q = room, *dout = q + OWN * CHUNKS, *k = dout + OWN * CHUNKS, *v = k + COLS * CHUNKS;
    struct block_place p = place_of(a.sample, a.heads, a.length, OWN, PARTS);
    int64_t kv_head = p.head / (a.heads / a.kv_heads);
    struct attention_span keys = block_span(&a, &p);
    int own = (int)threadIdx.x / WARP * 16, from = p.part * PART;
    float dq[PART / 8][4] = {};
    tile_load<E, D>(q, OWN, source_of(&a, &a.q, &p, p.head, p.first, p.rows));
    tile_load<E, D>(dout, OWN, source_of(&a, &a.dout, &p, p.head, p.first, p.rows));
    for (int j = keys.first; j < keys.end; j += COLS) {
        float s[COLS / 8][4] = {}, dp[COLS / 8][4] = {};
        __syncthreads();
        tile_load<E, D>(k, COLS, source_of(&a, &a.k, &p, kv_head, j, keys.end - j));
        tile_load<E, D>(v, COLS, source_of(&a, &a.v, &p, kv_head, j, keys.end - j));
        copies_wait();
        __syncthreads();
        E::template rows<D, COLS>(s, q, own, k);
        E::template rows<D, COLS>(dp, dout, own, v);
        slopes<COLS>(&a, &p, j, s, dp);
        E::template sums<D, COLS, PART>(dq, dp, k, from);
    }
    copies_wait();
    int64_t at = p.sample * a.q.sample + p.first * a.q.row + p.head * a.size + from;
    write_slopes<PART>(&a.dq, at, a.q.row, p.rows, int_smaller(PART, a.size - from), dq, a.scale);
}

#endif
