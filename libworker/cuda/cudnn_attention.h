/* Attention as graphs of cuDNN's operations, which its flash attention engines recognise.
 *
 *     forward     14 operations: s = scale q k^T; -inf above the diagonal; out = softmax(s) v,
 *                 and the log of each row's sum, as kernel/attention.h has it
 *     backward    22: delta = rows of dout * out; p = exp(s - log of the sum); dv = p^T dout;
 *                 ds = scale p (dout v^T - delta); dk = ds^T q; dq = ds k. 24 with groups of heads.
 *                 One less where gradients have the same bits on every run: else dq is summed in
 *                 memory, in f32, by atomics
 *
 * Without a causal mask there are 4 less. Queries, keys, values and gradients are read and
 * written by strides, so nothing is copied. Gradients have the type of the values.
 * Pure but for the graph; one thread. Source: FlashAttention-2 (Dao 2023); the forms of graphs that
 * cuDNN 9 supports, as its documentation of fused flash attention has them.
 */
#ifndef CUDA_CUDNN_ATTENTION_H
#define CUDA_CUDNN_ATTENTION_H

#include <worker/types.h>

#include "libworker/cuda/cudnn_graph.h"

/* Numbers of the tensors in memory. */
enum cudnn_role {
    ROLE_Q = 1,
    ROLE_K,
    ROLE_V,
    ROLE_OUT,
    ROLE_LSE,
    ROLE_DOUT, /* backward only from here */
    ROLE_DQ,
    ROLE_DK,
    ROLE_DV,
    ROLE_DELTA,  /* f32 [samples, heads, length]: scratch */
    ROLE_DQ_SUM, /* f32 [samples, heads, length, size]: scratch, unless `repeats` */
    ROLES,
};

/* All that a plan depends on. Compared by bytes, so it has no gaps. */
struct cudnn_attention {
    int64_t samples, heads, kv_heads, length, size;
    int64_t row, sample;         /* elements between positions and samples of q, k, v, dq, dk, dv */
    int64_t out_row, out_sample; /* of out and dout */
    float scale;
    int32_t type; /* WK_BF16 or WK_F16 */
    int32_t causal, backward;
    int32_t repeats; /* backward: the same bits on every run */
    int32_t unused;
};

void cudnn_attention_build(struct cudnn_graph *graph, const struct cudnn_attention *attention);

#endif
