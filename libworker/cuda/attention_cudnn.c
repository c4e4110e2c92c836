/* attention by cuDNN. Backward, a result's gradient in f32 is rounded to the type of the values
 * first. cuDNN's gradients have that type too. They are written to their places, or by scratch
 * memory to gradients in f32. */
#include "libworker/cuda/attention_cudnn.h"

#include "libworker/cuda/cudnn.h"
#include "libworker/cuda/kernels/elements.h"
#include "libworker/graph/op/attention.h"

/* Without a GPU attention is planned for a cuDNN that knows all lengths, and no plan of cuDNN's can
 * be made: the memory is what it needs at most. */
enum { ALIGN = 256, PLANNED_VERSION = 91900, ENGINE_BYTES = 1024 };

/* Scratch memory of a pass: its parts follow each other, `bytes` of them so far. */
struct room {
    uint8_t *at;
    size_t bytes;
};

static void *take(struct room *room, size_t bytes)
{
    uint8_t *at = room->at ? room->at + room->bytes : NULL;
    room->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* Addresses in scratch memory; NULL while it is only measured. */
struct parts {
    void *dout, *dqkv, *delta, *dq_sum, *workspace;
};

static struct parts parts_take(struct room *room, const struct op_call *call,
                               const struct cudnn_attention *a, size_t workspace_bytes)
{
    size_t rows = (size_t)(a->samples * a->heads * a->length);
    struct parts parts = {.workspace = take(room, workspace_bytes)};
    if (!a->backward)
        return parts;
    parts.dout = take(room, (size_t)call->out[0].count * sizeof(uint16_t));
    parts.dqkv = take(room, (size_t)call->in[ATTENTION_QKV].count * sizeof(uint16_t));
    parts.delta = take(room, rows * sizeof(float));
    if (!a->repeats)
        parts.dq_sum = take(room, rows * (size_t)a->size * sizeof(float));
    return parts;
}

static enum wk_dtype type_of(const struct op_call *call, const struct kernel_attention *k)
{
    return call->compute == WK_F32 ? WK_F32 : k->type;
}

static struct attention_facts facts_of(struct cuda_device *device, const struct op_call *call,
                                       bool backward)
{
    const struct kernel_attention k = attention_of(call);
    bool windowed = k.window > 0 && k.window < k.length; /* not one that reaches all */
    struct attention_facts facts = {
        .choice = device->attention,
        .arch = device->arch,
        .type = type_of(call, &k),
        .samples = k.samples,
        .heads = k.heads,
        .kv_heads = k.kv_heads,
        .length = k.length,
        .size = k.size,
        .windowed = windowed,
        .documents = call->in[ATTENTION_STARTS].count > 0,
        .decodes = attention_decodes(call),
        .backward = backward,
    };
    if (device->plans_alone)
        facts.cudnn = PLANNED_VERSION;
    else if (facts.choice != ATTENTION_OWN)
        facts.cudnn = cudnn_version_of(device, NULL);
    return facts;
}

static struct cudnn_attention key_of(const struct op_call *call, bool backward, bool repeats)
{
    const struct kernel_attention k = attention_of(call);
    return (struct cudnn_attention){
        .samples = k.samples,
        .heads = k.heads,
        .kv_heads = k.kv_heads,
        .length = k.length,
        .size = k.size,
        .row = k.q.row,
        .sample = k.q.sample,
        .out_row = k.out.row,
        .out_sample = k.out.sample,
        .scale = k.scale,
        .type = (int32_t)k.type,
        .causal = k.causal,
        .backward = backward,
        .repeats = backward && repeats,
    };
}

void attention_cudnn_about(struct cuda_device *device, char ret[ATTENTION_ABOUT_BYTES])
{
    const char *why = "the setting is own";
    int version = device->attention == ATTENTION_OWN ? 0 : cudnn_version_of(device, &why);
    if (version)
        (void)str_printf(ret, ATTENTION_ABOUT_BYTES, "attention by cuDNN %d.%d.%d", version / 10000,
                         version / 100 % 100, version % 100);
    else
        (void)str_printf(ret, ATTENTION_ABOUT_BYTES, "own attention: %s", why);
}

/* What computes a call. */
struct decision {
    struct attention_facts facts;
    struct cudnn_attention key;
    const char *why_own; /* by the rule; NULL: cuDNN's, if it has a plan */
};

static struct decision decision_of(struct cuda_device *device, const struct op_call *call,
                                   bool backward)
{
    struct decision d = {.facts = facts_of(device, call, backward)};
    struct attention_ruling ruling = attention_rule(&d.facts);
    d.why_own = ruling.why_own;
    d.key = key_of(call, backward, ruling.repeats);
    return d;
}

/* At most, where no plan can be made. */
static size_t planned_workspace(const struct decision *d)
{
    return ENGINE_BYTES + (d->key.repeats ? attention_workspace(&d->facts) : 0);
}

struct attention_whose attention_cudnn_whose(struct cuda_device *device, const struct op_call *call,
                                             bool backward)
{
    struct decision d = decision_of(device, call, backward);
    struct attention_whose whose = {d.why_own, d.facts.cudnn};
    if (!whose.why_own && !device->plans_alone)
        whose.why_own = cudnn_plan_refused(device, &d.key);
    return whose;
}

static void pass_on(struct device_traffic *t, double bytes)
{
    t->written += bytes;
    t->read += bytes;
}

/* A plan counts as one kernel. Its workspace counts as written once and read once: cuDNN does not
 * tell how much of it a causal mask spares. */
bool attention_cudnn_traffic(struct cuda_device *device, const struct op_call *call, bool backward,
                             struct device_traffic *t)
{
    if (call->in[ATTENTION_QKV].count == 0 || attention_cudnn_whose(device, call, backward).why_own)
        return false;
    struct decision d = decision_of(device, call, backward);
    const struct op_tensor *dqkv = &call->d_in[ATTENTION_QKV];
    double low = sizeof(uint16_t), rows = (double)call->out[ATTENTION_LSE].count;
    t->launches = 1;
    if (!backward)
        return true;
    if ((int32_t)call->d_out.type != d.key.type) {
        t->launches++;
        pass_on(t, low * (double)call->out[0].count);
    }
    if ((int32_t)dqkv->type != d.key.type || dqkv->add) {
        t->launches++;
        pass_on(t, low * (double)dqkv->count);
    }
    pass_on(t, sizeof(float) * rows);
    pass_on(t, d.key.repeats ? (double)attention_workspace(&d.facts)
                             : sizeof(float) * rows * (double)d.key.size);
    return true;
}

size_t attention_cudnn_prepare(struct cuda_device *device, const struct op_call *call,
                               bool backward)
{
    struct room room = {.bytes = ALIGN}; /* as scratch memory may be less aligned */
    if (call->in[ATTENTION_QKV].count == 0)
        return 0;
    struct decision d = decision_of(device, call, backward);
    if (d.why_own)
        return 0;
    size_t workspace = planned_workspace(&d);
    if (!device->plans_alone) {
        const struct cudnn_graph *plan = cudnn_plan_prepare(device, &d.key);
        if (!plan)
            return 0;
        workspace = plan->workspace_bytes;
    }
    (void)parts_take(&room, call, &d.key, workspace);
    return room.bytes;
}

static void *element_at(void *at, int64_t first)
{
    return (uint16_t *)at + first;
}

/* Gradients of queries, keys and values, side by side as their values are. */
static void set_gradients(void *memory[ROLES], const struct cudnn_attention *a,
                          const struct parts *parts)
{
    memory[ROLE_DOUT] = parts->dout;
    memory[ROLE_DELTA] = parts->delta;
    memory[ROLE_DQ_SUM] = parts->dq_sum;
    memory[ROLE_DQ] = parts->dqkv;
    memory[ROLE_DK] = element_at(parts->dqkv, a->heads * a->size);
    memory[ROLE_DV] = element_at(parts->dqkv, (a->heads + a->kv_heads) * a->size);
}

static void store_gradients(const struct op_call *call, enum wk_dtype type, void *from,
                            cudaStream_t stream)
{
    const struct op_tensor *to = &call->d_in[ATTENTION_QKV];
    struct gpu_value sum = {.at = to->data, .type = to->type}, low = {.at = from, .type = type};
    if (from == to->data)
        return;
    if (to->add)
        gpu_add(sum, low, to->count, stream);
    else
        gpu_convert(sum, low, to->count, stream);
}

static bool is_aligned(const struct op_tensor *tensor)
{
    return (uintptr_t)tensor->data % CUDNN_BYTES_ALIGN == 0;
}

/* Gradients in the type of the values need no scratch memory. */
static struct parts set_backward(void *memory[ROLES], const struct op_call *call,
                                 const struct cudnn_attention *key, struct parts parts)
{
    const struct op_tensor *dout = &call->d_out, *dqkv = &call->d_in[ATTENTION_QKV];
    if ((int32_t)dout->type == key->type && is_aligned(dout))
        parts.dout = dout->data;
    if ((int32_t)dqkv->type == key->type && is_aligned(dqkv) && !dqkv->add)
        parts.dqkv = dqkv->data;
    set_gradients(memory, key, &parts);
    return parts;
}

bool attention_cudnn_run(const struct op_call *call, struct cuda_queue *queue, bool backward)
{
    const struct op_tensor *qkv = &call->in[ATTENTION_QKV], *out = &call->out[0];
    const struct decision d = decision_of(queue->device, call, backward);
    const struct cudnn_attention key = d.key;
    const struct cudnn_graph *plan = d.why_own ? NULL : cudnn_plan_find(queue->device, &key);
    if (!plan || !is_aligned(qkv) || !is_aligned(out) || !is_aligned(&call->out[ATTENTION_LSE]))
        return false;
    size_t past = (uintptr_t)call->scratch % ALIGN;
    struct room room = {.at = call->scratch, .bytes = (ALIGN - past) % ALIGN};
    struct parts parts = parts_take(&room, call, &key, plan->workspace_bytes);
    enum wk_dtype type = (enum wk_dtype)key.type;
    void *memory[ROLES] = {NULL};
    memory[ROLE_Q] = qkv->data;
    memory[ROLE_K] = element_at(qkv->data, key.heads * key.size);
    memory[ROLE_V] = element_at(qkv->data, (key.heads + key.kv_heads) * key.size);
    memory[ROLE_OUT] = out->data;
    memory[ROLE_LSE] = call->out[ATTENTION_LSE].data;
    if (backward) {
        struct gpu_value dout = {.at = call->d_out.data, .type = call->d_out.type};
        parts = set_backward(memory, call, &key, parts);
        if (parts.dout != dout.at)
            gpu_convert((struct gpu_value){.at = parts.dout, .type = type}, dout, out->count,
                        queue->stream);
    }
    cudnn_plan_run(queue, plan, memory, parts.workspace);
    if (backward)
        store_gradients(call, type, parts.dqkv, queue->stream);
    (void)cuda_check(queue, cudaGetLastError(), backward ? "attention's gradients" : "attention");
    return true;
}
