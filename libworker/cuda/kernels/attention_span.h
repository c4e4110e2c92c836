/* Which keys a query sees: [first, end), as attention_spans of kernel/attention.c. Every mask is
 * such a span, and neither end decreases from one query to the next. */
#ifndef CUDA_KERNELS_ATTENTION_SPAN_H
#define CUDA_KERNELS_ATTENTION_SPAN_H

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/attention.h"

static __device__ inline int int_larger(int a, int b)
{
    return a > b ? a : b;
}

static __device__ inline int int_smaller(int a, int b)
{
    return a < b ? a : b;
}

struct attention_span {
    int first, end;
};

/* What backward reads of a query, 16 bytes at once. */
struct alignas(16) attention_row {
    float lse, delta; /* delta: the sum over the row of dout * out */
    struct attention_span sees;
};

/* The first query after i of another document, or the length. */
static __device__ inline int document_end(const int32_t *starts, int length, int i)
{
    int low = i + 1, high = length;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (starts[middle] == starts[i])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static __device__ inline struct attention_span span_of(const struct attention_call *a,
                                                       int64_t sample, int i)
{
    int before = a->keys - a->length, at = before + i;
    const int32_t *starts = a->starts ? a->starts + sample * a->length : NULL;
    int first = starts ? starts[i] : 0, end = a->keys;
    if (a->causal)
        end = at + 1;
    else if (starts)
        end = before + document_end(starts, a->length, i);
    if (a->window > 0 && a->window < a->keys + a->length) {
        first = int_larger(first, at - a->window + 1);
        end = int_smaller(end, at + a->window);
    }
    end = int_larger(end, 0);
    return {int_smaller(int_larger(first, 0), end), end};
}

static __device__ inline bool span_has(struct attention_span span, int j)
{
    return span.first <= j && j < span.end;
}

/* What dropout multiplies the probability of key j by, for the row's key. */
static __device__ inline float share_kept(const struct attention_call *a, uint64_t row, int j)
{
    return attention_kept(row, j, attention_limit(a->keep)) ? 1 / a->keep : 0;
}

static __device__ inline uint64_t row_key(const struct attention_call *a, int64_t sample,
                                          int64_t head, int i)
{
    return attention_row_key(a->key, a->first_sample + sample, a->first_head + head,
                             a->keys - a->length + i);
}

#endif
