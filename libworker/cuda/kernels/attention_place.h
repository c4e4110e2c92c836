/* What a block of attention works on, and sums over four lanes that share a row. Device code. */
#ifndef CUDA_KERNELS_ATTENTION_PLACE_H
#define CUDA_KERNELS_ATTENTION_PLACE_H

#include "libworker/cuda/kernels/attention_span.h"
#include "libworker/cuda/kernels/attention_tile.h"

#define LOG2_E 1.44269504088896340736f

/* What a block works on. Blocks with more keys to see come first. */
struct block_place {
    int64_t sample, head; /* of queries, or of keys and values */
    int first, rows, part;
};

static __device__ inline struct block_place place_of(int64_t sample, int64_t heads, int total,
                                                     int each, int parts)
{
    int tiles = (total + each - 1) / each;
    int64_t block = blockIdx.x;
    struct block_place p;
    p.part = (int)(block % parts);
    block /= parts;
    int tile = tiles - 1 - (int)(block % tiles);
    block /= tiles;
    p.head = block % heads;
    p.sample = sample + block / heads;
    p.first = tile * each;
    p.rows = int_smaller(each, total - p.first);
    return p;
}

static __device__ inline struct tile_source source_of(const struct attention_call *a,
                                                      const struct head_array *array,
                                                      const struct block_place *p, int64_t head,
                                                      int first, int rows)
{
    return {array, p->sample * array->sample + first * array->row + head * a->size, rows, a->size};
}

static __device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

static __device__ inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* The keys that any query of the block sees. */
static __device__ inline struct attention_span block_span(const struct attention_call *a,
                                                          const struct block_place *p)
{
    struct attention_span last = span_of(a, p->sample, p->first + p->rows - 1);
    return {span_of(a, p->sample, p->first).first, last.end};
}

#endif
