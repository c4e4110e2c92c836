/* attention on a GPU, by cuDNN (attention_cudnn.h) or by kernels of its own (kernels/attention.h).
 * Queries, keys and values are read where the joined product has left them, and gradients are
 * written or added there. In decoding, keys and values of the pass go to the cache first. */
#include "libworker/graph/op/attention.h"

#include "common/base/str.h"
#include "libworker/cuda/attention_cudnn.h"
#include "libworker/cuda/cuda.h"
#include "libworker/cuda/kernels/attention.h"
#include "libworker/cuda/op.h"
#include "libworker/graph/op.h"

static void *element_at(const struct op_tensor *x, int64_t i)
{
    size_t each = x->type == WK_F32 ? sizeof(float) : sizeof(uint16_t);
    return x->data ? (char *)x->data + (size_t)i * each : NULL;
}

static struct head_array heads_at(const struct op_tensor *x, int64_t first,
                                  const struct attention_stride *stride)
{
    return (struct head_array){
        .at = element_at(x, first),
        .type = x->type,
        .row = stride->row,
        .sample = stride->sample,
    };
}

static int int_of(int64_t x)
{
    return x < INT32_MAX ? (int)x : INT32_MAX;
}

static struct attention_call call_of(const struct op_call *call)
{
    const struct kernel_attention k = attention_of(call);
    const struct op_tensor *qkv = &call->in[ATTENTION_QKV];
    int64_t keys = k.heads * k.size, values = keys + k.kv_heads * k.size;
    return (struct attention_call){
        .samples = k.samples,
        .heads = k.heads,
        .kv_heads = k.kv_heads,
        .length = (int)k.length,
        .keys = (int)k.keys,
        .size = (int)k.size,
        .scale = k.scale,
        .causal = k.causal,
        .window = int_of(k.window),
        .starts = k.starts,
        .keep = k.keep,
        .type = call->compute == WK_F32 ? WK_F32 : k.type,
        .q = heads_at(qkv, 0, &k.q),
        .k = heads_at(qkv, keys, &k.k),
        .v = heads_at(qkv, values, &k.v),
        .out = heads_at(&call->out[0], 0, &k.out),
        .dout = heads_at(&call->d_out, 0, &k.out),
        .lse = call->out[ATTENTION_LSE].data,
    };
}

/* Keys and values of the pass go to the cache, and all are read from there. */
static void use_cache(const struct op_call *call, struct attention_call *a, cudaStream_t stream)
{
    const struct op_tensor *cache = &call->cache;
    int64_t past = call->pass->past, samples = cache->shape[1], width = cache->shape[2];
    struct attention_cache store = {
        .at = cache->data,
        .type = cache->type,
        .samples = samples,
        .width = width,
        .past = past,
        .length = a->length,
        .from = a->k,
    };
    struct attention_stride stride = {samples * width, width};
    attention_device_store(&store, stream);
    a->keys = (int)(past + a->length);
    a->k = heads_at(cache, 0, &stride);
    a->v = heads_at(cache, width / 2, &stride);
}

static void mix_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct attention_call a = call_of(call);
    if (call->in[ATTENTION_QKV].count == 0 || attention_cudnn_run(call, queue, false))
        return;
    if (attention_decodes(call))
        use_cache(call, &a, queue->stream);
    attention_device_forward(&a, queue->stream);
    (void)cuda_check(queue, cudaGetLastError(), "attention");
}

static struct attention_target target_at(const struct op_tensor *x, int64_t first)
{
    return (struct attention_target){element_at(x, first), x->add, x->type};
}

static void mix_backward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct op_tensor *dqkv = &call->d_in[ATTENTION_QKV];
    struct attention_call a = call_of(call);
    if (dqkv->count == 0 || !dqkv->data || attention_cudnn_run(call, queue, true))
        return;
    a.dq = target_at(dqkv, 0);
    a.dk = target_at(dqkv, a.heads * a.size);
    a.dv = target_at(dqkv, (a.heads + a.kv_heads) * a.size);
    a.scratch = call->scratch;
    attention_device_backward(&a, queue->stream);
    (void)cuda_check(queue, cudaGetLastError(), "attention's gradients");
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    struct attention_call a = call_of(call);
    return backward ? attention_device_scratch(&a) : 0;
}

static unsigned attention_narrows(const struct node *node)
{
    (void)node;
    return OP_OUT(0) | OP_IN(ATTENTION_QKV);
}

static void say_whose(const struct attention_whose *whose, bool low, char *ret, size_t size)
{
    int version = whose->cudnn;
    if (whose->why_own)
        (void)str_printf(ret, size, "own kernels%s, as %s", low ? " by tensor cores" : "",
                         whose->why_own);
    else
        (void)str_printf(ret, size, "cuDNN %d.%d.%d", version / 10000, version / 100 % 100,
                         version % 100);
}

static void say_chosen(struct cuda_device *device, const struct op_call *call, bool backward,
                       char ret[DEVICE_CHOSEN_BYTES])
{
    char kernels[DEVICE_CHOSEN_BYTES];
    const struct attention_call a = call_of(call);
    const struct attention_whose whose = attention_cudnn_whose(device, call, backward);
    say_whose(&whose, a.type != WK_F32, kernels, sizeof(kernels));
    (void)str_printf(ret, DEVICE_CHOSEN_BYTES, "attention of %d %s of %d in %s, %s: %s",
                     int_of(a.heads), a.heads == 1 ? "head" : "heads", a.size,
                     wk_dtype_name(a.type), backward ? "backward" : "forward", kernels);
}

const struct cuda_op cuda_op_attention = {
    .name = "attention",
    .forward = mix_forward,
    .backward = mix_backward,
    .scratch_bytes = scratch_bytes,
    .prepare = attention_cudnn_prepare,
    .narrows = attention_narrows,
    .chosen = say_chosen,
};
