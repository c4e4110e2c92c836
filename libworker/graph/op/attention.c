/* Attention on qkv[samples, length, (heads + 2 kv_heads) * size] in tiles (kernel/attention.h),
 * within the documents of packed samples.
 * The log of each row's sum of exponentials [samples, heads, length] is kept beside the result, so
 * memory grows with the length, not its square. Products are in the type of qkv and the result, or
 * in float where they differ. In decoding, keys and values of all positions so far are in a cache
 * [capacity, samples, 2 kv_heads * size], keys before values, and products are in its type. */
#include "libworker/kernel/attention.h"

#include <math.h>
#include <string.h>

#include "libworker/graph/op/attention.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/tile.h"

static int options_check(const struct attention_attributes *a, struct error *err)
{
    if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads)
        return error_set(err, WK_EINVAL, "%d heads with %d kv_heads; heads must be a multiple",
                         a->heads, a->kv_heads);
    if (a->window < 0)
        return error_set(err, WK_EINVAL, "the window is %lld; it takes 0 or more positions",
                         (long long)a->window);
    if (!(a->scale >= 0 && isfinite(a->scale)))
        return error_set(err, WK_EINVAL, "the scale is %g; it takes 0 or more", (double)a->scale);
    return 0;
}

static int mix_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct attention_attributes *a = s->attributes;
    const struct wk_tensor *qkv = s->in[ATTENTION_QKV];
    int rc = rule_value(s, ATTENTION_QKV, err);
    if (!rc)
        rc = rule_dims(s, ATTENTION_QKV, (int[]){3, 3}, err);
    if (!rc)
        rc = starts_shape(s, ATTENTION_STARTS, qkv, err);
    if (!rc)
        rc = options_check(a, err);
    if (rc)
        return rc;
    int64_t size = qkv->shape[2].fixed / attention_vectors(a);
    if (!dim_is_fixed(qkv->shape[2]) || qkv->shape[2].fixed % attention_vectors(a) ||
        size > ATTENTION_SIZE_MAX)
        return error_set(err, WK_EINVAL,
                         "input 0 is %s; its width must be (%d + 2 * %d) heads of 1 to %d",
                         tensor_text(qkv, text), a->heads, a->kv_heads, ATTENTION_SIZE_MAX);
    if (qkv->shape[1].samples || qkv->shape[1].fixed > ATTENTION_KEYS_MAX)
        return error_set(err, WK_EINVAL, "input 0 is %s; dimension 1 is a length of at most %d",
                         tensor_text(qkv, text), ATTENTION_KEYS_MAX);
    s->n_out = 2;
    s->out[0] = rule_output(qkv, 0);
    s->out[0].shape[2] = dim_fixed(a->heads * size);
    s->out[ATTENTION_LSE] = rule_output(qkv, 0);
    s->out[ATTENTION_LSE].shape[1] = dim_fixed(a->heads);
    s->out[ATTENTION_LSE].shape[2] = qkv->shape[1];
    return 0;
}

/* x in the kernels' type: itself, or room for it. */
static struct op_tensor as_typed(const struct op_call *call, const struct op_tensor *x,
                                 uint8_t **room)
{
    struct op_tensor same = *x;
    same.type = attention_type(call);
    if (same.type != x->type)
        same.data = room_take(room, x->count, wk_dtype_bytes(same.type));
    return same;
}

static size_t typed_bytes(const struct op_call *call, const struct op_tensor *x)
{
    size_t bytes = (size_t)x->count * wk_dtype_bytes(attention_type(call));
    return x->type == attention_type(call) ? 0 : room_rounded(bytes);
}

static void convert_between(const struct op_call *call, const struct op_tensor *to,
                            const struct op_tensor *from)
{
    if (to->data != from->data)
        tile_copy(call->pass->kernels, to, from, (int64_t[]){0, 0}, from->count);
}

/* Queries, keys and values from the first element of each on. */
static struct attention_data data_of(const struct op_call *call, const struct kernel_attention *k,
                                     uint8_t **room)
{
    struct op_tensor qkv = as_typed(call, &call->in[ATTENTION_QKV], room);
    int64_t keys = k->heads * k->size, values = keys + k->kv_heads * k->size;
    convert_between(call, &qkv, &call->in[ATTENTION_QKV]);
    return (struct attention_data){
        .q = tensor_at(&qkv, 0),
        .k = tensor_at(&qkv, keys),
        .v = tensor_at(&qkv, values),
        .lse = call->out[ATTENTION_LSE].data,
    };
}

/* Keys and values of the pass' positions go to the cache, and are read from there. */
static void use_cache(const struct op_call *call, struct kernel_attention *kernel,
                      struct attention_data *data)
{
    const struct op_tensor *cache = &call->cache;
    int64_t past = call->pass->past, samples = cache->shape[1], width = cache->shape[2];
    size_t each = wk_dtype_bytes(cache->type);
    for (int64_t i = 0; i < kernel->length; i++) {
        for (int64_t s = 0; s < samples; s++) {
            int64_t from = s * kernel->k.sample + i * kernel->k.row;
            memcpy(tensor_at(cache, ((past + i) * samples + s) * width),
                   (const char *)data->k + (size_t)from * each, (size_t)width * each);
        }
    }
    kernel->keys = past + kernel->length;
    kernel->k = kernel->v = (struct attention_stride){samples * width, width};
    data->k = tensor_at(cache, 0);
    data->v = tensor_at(cache, width / 2);
}

static void mix_forward(const struct op_call *call)
{
    struct kernel_attention kernel = attention_of(call);
    uint8_t *room = call->scratch;
    if (call->in[ATTENTION_QKV].count == 0)
        return;
    struct attention_data data = data_of(call, &kernel, &room);
    if (attention_decodes(call))
        use_cache(call, &kernel, &data);
    struct op_tensor result = as_typed(call, &call->out[0], &room);
    data.out = result.data;
    data.scratch = room;
    call->pass->kernels->attention->forward(&kernel, &data);
    convert_between(call, &call->out[0], &result);
}

static void mix_backward(const struct op_call *call)
{
    const struct op_tensor *dqkv = &call->d_in[ATTENTION_QKV];
    struct kernel_attention kernel = attention_of(call);
    int64_t keys = kernel.heads * kernel.size, values = keys + kernel.kv_heads * kernel.size;
    uint8_t *room = call->scratch;
    if (dqkv->count == 0 || !dqkv->data)
        return;
    struct attention_data data = data_of(call, &kernel, &room);
    struct op_tensor result = as_typed(call, &call->out[0], &room);
    convert_between(call, &result, &call->out[0]);
    float *to = dqkv->add ? room_take(&room, dqkv->count, sizeof(*to)) : dqkv->data;
    data.out = result.data;
    data.scratch = room;
    data.dout = call->d_out.data;
    data.dq = to;
    data.dk = to + keys;
    data.dv = to + values;
    call->pass->kernels->attention->backward(&kernel, &data);
    tile_store(call->pass->kernels, dqkv, 0, dqkv->count, to);
}

static size_t scratch_bytes(const struct op_call *call, bool back)
{
    struct kernel_attention kernel = attention_of(call);
    if (attention_decodes(call))
        kernel.keys = call->cache.shape[0];
    size_t bytes = typed_bytes(call, &call->in[ATTENTION_QKV]) + typed_bytes(call, &call->out[0]) +
                   attention_scratch_bytes(&kernel, back);
    if (back && call->d_in[ATTENTION_QKV].add)
        bytes += room_rounded((size_t)call->in[ATTENTION_QKV].count * sizeof(float));
    return bytes;
}

/* Positions that a query sees, on average. */
static double seen_of(const struct attention_attributes *a, double length)
{
    double window = a->window > 0 && (double)a->window < length ? (double)a->window : length;
    double before = window * (length - (window - 1) / 2) / length; /* itself and those before */
    return a->causal ? before : 2 * before - 1;
}

/* Two products of queries with what they see forward; backward, five. */
static void mix_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    double count = (double)call->out[0].count;
    double seen = seen_of(call->node->attributes, (double)call->in[ATTENTION_QKV].shape[1]);
    *ret = (struct op_cost){.flop = 2 * (back ? 5 : 2) * count * seen,
                            .bytes = cost_bytes(call, back)};
}

static const char *mix_decode_refusal(const struct node *node)
{
    const struct attention_attributes *a = node->attributes;
    return a->causal ? rule_decodes_rows(node) : "positions see later ones";
}

static int64_t cache_width(const struct node *node)
{
    const struct attention_attributes *a = node->attributes;
    int64_t size = node->in[ATTENTION_QKV]->shape[2].fixed / attention_vectors(a);
    return 2 * a->kv_heads * size;
}

static const struct op_attribute attention_attributes[] = {
    OP_ATTRIBUTE(struct attention_attributes, heads),
    OP_ATTRIBUTE(struct attention_attributes, kv_heads),
    OP_ATTRIBUTE(struct attention_attributes, causal),
    OP_ATTRIBUTE(struct attention_attributes, window),
    OP_ATTRIBUTE(struct attention_attributes, scale),
    {0},
};

const struct op_row op_attention = {
    .name = "attention",
    .attributes = attention_attributes,
    .result = RESULT_NARROW,
    .min_in = 1,
    .max_in = 2,
    .optional = OP_IN(ATTENTION_STARTS),
    .cuts = OP_CUT_SAMPLES | OP_CUT_HEADS,
    .shape = mix_shape,
    .keeps = OP_IN(ATTENTION_QKV) | OP_IN(ATTENTION_STARTS) | OP_OUT(0) | OP_OUT(ATTENTION_LSE),
    .index_input = 1 + ATTENTION_STARTS,
    .index_starts = true,
    .differentiable = OP_IN(ATTENTION_QKV),
    .factors = OP_IN(ATTENTION_QKV),
    .decode_refusal = mix_decode_refusal,
    .cache_width = cache_width,
    .scratch_bytes = scratch_bytes,
    .cost = mix_cost,
    .forward = mix_forward,
    .backward = mix_backward,
};

struct wk_tensor *wk_op_attention(struct wk_tensor *qkv, const struct wk_attention_options *options)
{
    static const struct wk_attention_options none;
    options = options ? options : &none; /* 0 heads, which is refused */
    struct attention_attributes attributes = {
        .heads = options->heads,
        .kv_heads = options->kv_heads ? options->kv_heads : options->heads,
        .causal = !options->full,
        .window = options->window,
        .scale = (float)options->scale,
    };
    return graph_add(&(struct node_request){.row = &op_attention,
                                            .attributes = &attributes,
                                            .attributes_bytes = sizeof(attributes),
                                            .n_in = 2,
                                            .in = {qkv, options->starts}});
}
