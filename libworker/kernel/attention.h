/* Attention in tiles: softmax(scale * q k^T) v and its gradients without a matrix of length x keys.
 * The forward pass keeps one number a row, the log of its sum of exponentials, and the backward
 * pass computes the probabilities again from it. Memory grows with the length, not its square.
 * Source: FlashAttention-2 (Dao 2023); key/value groups: Ainslie et al. 2023.
 *
 * Constant tables, any thread; a call uses only its arguments and scratch memory. Nothing fails:
 * the caller checks the shape. The bits of a result depend on its own sample, the shape and the
 * table alone: not on the other samples, the run, or the scratch memory. With samples 0 nothing is
 * touched. Length 0 and keys 0 are allowed.
 */
#ifndef KERNEL_ATTENTION_H
#define KERNEL_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

#include "libworker/precision/noise.h"

/* The largest size of a head, and the largest number of keys. */
enum { ATTENTION_SIZE_MAX = 256, ATTENTION_KEYS_MAX = 1 << 24 };

/* Elements from one position to the next and from one sample to the next. Within a position the
 * heads are side by side, `size` elements each. */
struct attention_stride {
    int64_t row, sample;
};

/* Query i of a sample is at position keys - length + i; keys are at positions 0 to keys - 1. So the
 * last query is beside the last key, as in decoding with a cache. */
struct kernel_attention {
    int64_t samples, length, keys;
    int64_t heads, kv_heads; /* head h reads the keys and values h / (heads / kv_heads) */
    int64_t size;            /* of one head's query, key and value: 1 to ATTENTION_SIZE_MAX */
    struct attention_stride q, k, v, out; /* gradients have the strides of their values */
    enum wk_dtype type;                   /* of q, k, v, out: WK_F32, WK_BF16 or WK_F16 */
    enum wk_dtype grad_type;              /* of dout, dq, dk, dv: the same choice */
    float scale;

    /* Which keys a query sees: those that all of these allow. A row that sees no key is 0, has the
     * lse -INFINITY, and passes no gradient. */
    bool causal;    /* at its position and before */
    int64_t window; /* less than `window` positions away, so causal: the last `window` up to its
                     * own; 0: any */
    /* [samples, length] or NULL: the first position of the document that each query's position
     * belongs to. Of its own document only. Does not decrease within a sample, and is 0 up to the
     * query's own position. Padding at the end of a sample is a document of its own. */
    const int32_t *starts;

    /* Each probability becomes 0 with chance 1 - keep, else itself / keep; 1: all stay. Decided by
     * attention_kept from the global numbers of sample and head and the two positions, so neither
     * ranks, tiles nor types change it. */
    float keep;
    uint64_t key;
    int64_t first_sample, first_head; /* global numbers of sample 0 and head 0 */
};

/* Arrays of the caller in the back end's memory; none overlap, except that elements of q, k and v
 * (and of dq, dk and dv) may alternate within one array. Forward uses the first six. */
struct attention_data {
    const void *q, *k, *v; /* [samples, length or keys, heads or kv_heads, size] by strides */
    void *out;
    float *lse;    /* [samples, heads, length]: log of the sum over keys of exp(scale * q k) */
    void *scratch; /* attention_scratch_bytes, any alignment; not kept between calls */
    const void *dout;
    void *dq, *dk, *dv;
};

struct attention_kernels {
    /* Writes out and lse from q, k, v. */
    void (*forward)(const struct kernel_attention *attention, const struct attention_data *data);
    /* Writes dq, dk and dv from dout and forward's q, k, v, out and lse. Does not add: dk and dv
     * are sums over queries and the group's heads in float, rounded once. Elements of between rows
     * and of other heads stay as they were. */
    void (*backward)(const struct kernel_attention *attention, const struct attention_data *data);
};

/* Scratch memory of one call, for any table: independent of samples, linear in length and keys.
 * The sums of a key's gradients and copies of one head's keys and values in float take most. */
size_t attention_scratch_bytes(const struct kernel_attention *attention, bool backward);

/* The key of one row's dropout, from global numbers. */
NOISE_FUNCTION uint64_t attention_row_key(uint64_t key, int64_t sample, int64_t head, int64_t query)
{
    const uint64_t step = 0x9e3779b97f4a7c15u; /* as in precision/noise.h */
    uint64_t mixed = noise_mix(key + ((uint64_t)sample + 1) * step);
    mixed = noise_mix(mixed + ((uint64_t)head + 1) * step);
    return noise_mix(mixed + ((uint64_t)query + 1) * step);
}

/* Noise below it keeps an element, as in `dropout` of the kernel table. */
NOISE_FUNCTION uint64_t attention_limit(float keep)
{
    return (uint64_t)((double)keep * 0x1p32);
}

/* Whether the probability of the key at position `at` stays. */
NOISE_FUNCTION bool attention_kept(uint64_t row_key, int64_t at, uint64_t limit)
{
    return noise_bits(row_key, (uint64_t)at) < limit;
}

#endif
