#include "libworker/cuda/traffic.h"

#include <string.h>

#include "libworker/cuda/attention_cudnn.h"
#include "libworker/cuda/kernels/embedding.h"
#include "libworker/cuda/kernels/entropy_head.h"
#include "libworker/cuda/kernels/norm.h"
#include "libworker/cuda/kernels/product.h"
#include "libworker/cuda/kernels/rope.h"
#include "libworker/graph/op.h"
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/linear.h"

enum { ATTENTION_FACTS = 16, SORTED_AT_ONCE = 1024, KEY_BYTES = 8 };

typedef void traffic_fn(const struct op_call *call, struct device_traffic *t);

static double bytes_in(enum wk_dtype type, int64_t count)
{
    return (double)count * (double)wk_dtype_bytes(type);
}

static double bytes_of(const struct op_tensor *x)
{
    return x->dims ? bytes_in(x->type, x->count) : 0;
}

static bool is_wanted(const struct op_tensor *d)
{
    return d->dims > 0;
}

/* Written by one kernel and read by another, `reads` times. */
static void pass_on(struct device_traffic *t, double bytes, int reads)
{
    t->written += bytes;
    t->read += bytes * reads;
}

/* A factor that is read `times` times, converted before if it has another type. */
static void factor(const struct op_call *call, const struct op_tensor *x, int times,
                   struct device_traffic *t)
{
    if (x->type == call->compute || !x->dims || times == 0) {
        t->read += times > 1 ? bytes_of(x) * (times - 1) : 0;
        return;
    }
    t->launches++;
    pass_on(t, bytes_in(call->compute, x->count), times);
}

static int weights_of(const struct op_call *call, const struct op_tensor *tensors)
{
    int n = 0;
    (void)call;
    for (int i = LINEAR_WEIGHTS; i < LINEAR_WEIGHTS + LINEAR_PARTS_MAX; i++)
        n += is_wanted(&tensors[i]);
    return n;
}

static void factor_weights(const struct op_call *call, struct device_traffic *t)
{
    for (int i = LINEAR_WEIGHTS; i < LINEAR_WEIGHTS + LINEAR_PARTS_MAX; i++)
        factor(call, &call->in[i], 1, t);
}

static void linear_forward(const struct op_call *call, struct device_traffic *t)
{
    const struct op_tensor *y = &call->out[0];
    enum wk_dtype type = y->type == call->compute ? y->type : WK_F32;
    int n = weights_of(call, call->in);
    t->launches = n;
    factor(call, &call->in[0], n, t);
    factor_weights(call, t);
    for (int i = LINEAR_BIAS; i <= LINEAR_RESIDUAL; i++) {
        if (!call->in[i].dims || call->in[i].type == type)
            continue;
        t->launches++;
        pass_on(t, bytes_in(type, call->in[i].count), 1);
    }
    if (y->type != type) {
        t->launches++;
        pass_on(t, bytes_in(type, y->count), 1);
    }
}

static void linear_backward(const struct op_call *call, struct device_traffic *t)
{
    const struct op_tensor *d = &call->d_out, *dx = &call->d_in[0];
    int n = weights_of(call, call->in), trained = weights_of(call, call->d_in);
    int64_t out = d->shape[d->dims - 1], rows = out ? d->count / out : 0;
    int uses = (trained > 0) + is_wanted(dx);
    bool bias = is_wanted(&call->d_in[LINEAR_BIAS]), converts = d->type != call->compute;
    t->launches = trained + (is_wanted(dx) ? n : 0);
    factor(call, d, uses, t);
    factor(call, &call->in[0], trained, t);
    if (is_wanted(dx)) {
        factor_weights(call, t);
        pass_on(t, bytes_of(dx) * (n - 1), 1);
    }
    if (bias) { /* the first of its two kernels converts dy */
        t->launches += converts && uses ? 1 : 2;
        t->read += uses && !converts ? bytes_of(d) : 0;
        pass_on(t, bytes_in(WK_F32, column_parts(rows) * out), 1);
    }
}

enum { HEAD_X, HEAD_TABLE, HEAD_SLOPES = 1 };

static void head_forward(const struct op_call *call, struct device_traffic *t)
{
    int64_t rows = call->out[0].count, classes = call->in[HEAD_TABLE].shape[0];
    int chunks = (int)((rows + HEAD_ROWS - 1) / HEAD_ROWS);
    int64_t stride = (classes + HEAD_STRIDE_STEP - 1) / HEAD_STRIDE_STEP * HEAD_STRIDE_STEP;
    t->launches = 2 * chunks;
    factor(call, &call->in[HEAD_X], 1, t);
    factor(call, &call->in[HEAD_TABLE], chunks, t);
    pass_on(t, bytes_in(WK_F32, rows * stride), 1);
}

static void head_backward(const struct op_call *call, struct device_traffic *t)
{
    const struct op_tensor *x = &call->in[HEAD_X], *dx = &call->d_in[HEAD_X];
    bool table = is_wanted(&call->d_in[HEAD_TABLE]);
    t->launches = 0;
    if (table) {
        t->launches += 2;
        pass_on(t, bytes_in(call->compute, x->count), 1);
    }
    if (is_wanted(dx)) {
        t->launches += 2;
        factor(call, &call->in[HEAD_TABLE], 1, t);
        pass_on(t, bytes_of(dx), 1);
        t->read += table ? bytes_of(&call->out[HEAD_SLOPES]) : 0;
    }
}

static void attention_forward(const struct op_call *call, struct device_traffic *t)
{
    (void)call;
    t->launches = 1;
}

/* Rows, then keys and values, then queries. */
static void attention_backward(const struct op_call *call, struct device_traffic *t)
{
    const struct op_tensor *d = &call->d_out;
    bool narrows = d->type == WK_F32 && call->in[0].type != WK_F32 && call->compute != WK_F32;
    t->launches = 3;
    t->read += bytes_of(&call->in[0]);
    if (narrows)
        pass_on(t, bytes_in(call->in[0].type, d->count), 2);
    else
        t->read += 2 * bytes_of(d);
    pass_on(t, ATTENTION_FACTS * (double)call->out[1].count, 2);
}

/* Angles are filled by blocks of frequencies, then read. */
static void rope_forward(const struct op_call *call, struct device_traffic *t)
{
    const struct op_tensor *angles = &call->out[1];
    const struct rope_attributes *a = call->node->attributes;
    t->launches = 1 + (int)(a->size / 2 + ROPE_FREQUENCIES - 1) / ROPE_FREQUENCIES;
    t->read += bytes_of(angles);
}

static void norm_backward(const struct op_call *call, struct device_traffic *t)
{
    const struct op_tensor *x = &call->in[0];
    int64_t width = x->shape[x->dims - 1];
    t->launches = 2;
    pass_on(t, bytes_in(WK_F32, gpu_norm_partials(width ? x->count / width : 0, width)), 1);
}

enum { TABLE, IDS };

/* A table is read where it is looked up. */
static void embedding_forward(const struct op_call *call, struct device_traffic *t)
{
    t->read -= bytes_of(&call->in[TABLE]);
    t->read += bytes_in(call->in[TABLE].type, call->out[0].count);
}

/* Keys are sorted by steps, then gradients are summed in two. At most as many rows change as there
 * are ids. */
static void embedding_backward(const struct op_call *call, struct device_traffic *t)
{
    const struct op_tensor *d = &call->d_out, *dtable = &call->d_in[TABLE];
    int64_t rows = call->in[IDS].count, keys = SORTED_AT_ONCE;
    int sorts = 1;
    while (keys < rows)
        keys *= 2;
    for (int64_t size = 2 * SORTED_AT_ONCE; size <= keys; size *= 2) {
        for (int64_t distance = size / 2; distance >= SORTED_AT_ONCE; distance /= 2)
            sorts++;
        sorts++;
    }
    t->launches = sorts + 2 + (dtable->add ? 0 : 1);
    pass_on(t, (double)(keys * KEY_BYTES * sorts), 1);
    if (dtable->add && d->count < dtable->count) {
        double spared = bytes_of(dtable) - bytes_of(d);
        t->read -= spared;
        t->written -= spared;
    }
}

static const struct {
    const char *name;
    traffic_fn *forward, *backward; /* NULL: one kernel, and each tensor once */
} rows[] = {
    {"linear", linear_forward, linear_backward},
    {"head_cross_entropy", head_forward, head_backward},
    {"attention", attention_forward, attention_backward},
    {"layer_norm", NULL, norm_backward},
    {"rms_norm", NULL, norm_backward},
    {"embedding", embedding_forward, embedding_backward},
    {"rope", rope_forward, NULL},
};

void traffic_add(struct cuda_device *device, const struct op_args *args, struct device_traffic *t)
{
    const struct op_call *call = &args->call;
    bool backward = args->backward;
    if (!strcmp(call->node->row->name, "attention") &&
        attention_cudnn_traffic(device, call, backward, t))
        return;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        traffic_fn *add = backward ? rows[i].backward : rows[i].forward;
        if (add && !strcmp(rows[i].name, call->node->row->name))
            add(call, t);
    }
}
