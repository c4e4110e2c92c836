/* Attention in tiles on the device, with products of a warp: softmax(scale * q k^T) v and its
 * gradients. Masks, dropout, packed documents and key/value groups are those of kernel/attention.h.
 *
 *     forward     a block has 16 to 64 queries of one head and goes along the keys they see
 *     rows        what backward reads of each query: log of its sum, delta, the keys it sees
 *     keys        a block has 16 to 64 keys of one kv head and goes along the queries that see them
 *     queries     as forward, for dq: probabilities are computed twice, and nothing is added up
 *                 by atomics, so a result has the same bits on every run
 *
 * Types: bf16 and f16 by tensor cores (PTX mma.sync), where probabilities and their gradients are
 * rounded to the type before they are multiplied; f32 by plain sums. Heads are padded to 64, 128 or
 * 256 elements in shared memory, of which a block has 48 KiB.
 * Bytes: a tile is read once for each tile of the other side that meets it. The tiles of a head are
 * neighbours in the L2 cache, so memory sees about one reading.
 *
 * Host functions launch on the stream (gpu.h). Any thread.
 * Source: FlashAttention-2 (Dao 2023). */
#ifndef CUDA_KERNELS_ATTENTION_H
#define CUDA_KERNELS_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

#include "libworker/cuda/stream.h"
#include "libworker/kernel/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array of heads: elements from one position to the next, and from one sample to the next. */
struct head_array {
    const void *at;
    enum wk_dtype type;
    int64_t row, sample;
    bool whole; /* all rows of all heads can be read 16 bytes at once; attention_prepare sets it */
};

/* The gradients that are written have the strides of their values. */
struct attention_target {
    void *at;
    bool add;
    enum wk_dtype type; /* f32, or that of the products */
};

struct attention_call {
    int64_t samples, heads, kv_heads;
    int length, keys, size;
    float scale; /* >= 0 */
    bool causal;
    int window;            /* 0: any */
    const int32_t *starts; /* [samples, length] or NULL */
    float keep;            /* 1: no dropout */
    uint64_t key;
    int64_t first_sample, first_head;

    enum wk_dtype type; /* of the products */
    struct head_array q, k, v, out, dout;
    float *lse; /* [samples, heads, length] */
    struct attention_target dq, dk, dv;

    void *scratch;  /* backward: attention_device_scratch bytes, aligned to 16 */
    int64_t sample; /* the first of this launch; 0 */
};

/* Query i of a sample is at position keys - length + i. Sets out and lse. */
void attention_device_forward(const struct attention_call *call, cudaStream_t stream);

/* Sets dq, dk, dv or adds to them, all three. */
void attention_device_backward(const struct attention_call *call, cudaStream_t stream);
size_t attention_device_scratch(const struct attention_call *call);

/* Decoding: keys and values of positions [past, past + length) into the cache [capacity, samples,
 * width], whose type may differ. They are `width` elements side by side from from->at on. */
struct attention_cache {
    void *at;
    enum wk_dtype type;
    int64_t samples, width, past, length;
    struct head_array from;
};
void attention_device_store(const struct attention_cache *cache, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
