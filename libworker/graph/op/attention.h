/* Attention's call as kernel/attention.h has it, for all devices' kernels. Pure. */
#ifndef OP_ATTENTION_H
#define OP_ATTENTION_H

#include <math.h>

#include "libworker/graph/op/starts.h"
#include "libworker/kernel/attention.h"

enum { ATTENTION_QKV, ATTENTION_STARTS, ATTENTION_LSE = 1 };

struct attention_attributes {
    int heads, kv_heads;
    bool causal;
    int64_t window;
    float scale; /* 0: 1 / sqrt(size) */
};

static inline int64_t attention_vectors(const struct attention_attributes *a)
{
    return a->heads + 2 * (int64_t)a->kv_heads;
}

static inline bool attention_decodes(const struct op_call *call)
{
    return call->cache.dims > 0;
}

/* The kernels' type: that of the cache, or of qkv and the result, or f32 where they differ. */
static inline enum wk_dtype attention_type(const struct op_call *call)
{
    if (attention_decodes(call))
        return call->cache.type;
    bool same = call->in[ATTENTION_QKV].type == call->out[0].type;
    return same ? call->in[ATTENTION_QKV].type : WK_F32;
}

static inline struct kernel_attention attention_of(const struct op_call *call)
{
    const struct attention_attributes *a = call->node->attributes;
    const struct op_tensor *qkv = &call->in[ATTENTION_QKV];
    int64_t length = qkv->shape[1], stride = qkv->shape[2], size = stride / attention_vectors(a);
    struct attention_stride in = {stride, length * stride};
    struct attention_stride out = {a->heads * size, length * a->heads * size};
    return (struct kernel_attention){
        .samples = qkv->shape[0],
        .length = length,
        .keys = length,
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .size = size,
        .q = in,
        .k = in,
        .v = in,
        .out = out,
        .type = attention_type(call),
        .grad_type = WK_F32,
        .scale = a->scale > 0 ? a->scale : 1.0f / sqrtf((float)size),
        .causal = a->causal,
        .window = a->window,
        .starts = starts_of(call, ATTENTION_STARTS),
        .keep = 1,
    };
}

#endif
