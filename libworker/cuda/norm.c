/* Norms of rows on a GPU: layer_norm, rms_norm, add_norm and group_norm. */
#include "libworker/cuda/kernels/norm.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"
#include "libworker/graph/op/group_norm.h"
#include "libworker/graph/op/norm.h"

enum { X, WEIGHT, BIAS, MEAN = 1, RSTD = 2, RMS_RSTD = 1 };

/* What all of them share; rows are of this width. */
static struct gpu_norm norm_of(const struct op_call *call, int64_t width)
{
    return (struct gpu_norm){.rows = width ? call->in[X].count / width : 0,
                             .width = width,
                             .groups = 1,
                             .each = 1,
                             .x = value_of(&call->in[X]),
                             .weight = value_of(&call->in[WEIGHT]),
                             .bias = value_of(&call->in[BIAS])};
}

static struct gpu_norm rows_of(const struct op_call *call)
{
    const struct norm_attributes *a = call->node->attributes;
    struct gpu_norm norm = norm_of(call, call->in[WEIGHT].count);
    norm.epsilon = a->epsilon;
    norm.centred = a->mean;
    norm.mean = a->mean ? call->out[MEAN].data : NULL;
    norm.rstd = call->out[a->mean ? RSTD : RMS_RSTD].data;
    return norm;
}

/* A sum and its norm: its tensors are those of the norm, after the two parts. */
static struct gpu_norm sum_of(const struct op_call *call)
{
    const struct norm_attributes *a = call->node->attributes;
    const struct op_tensor *out = call->out;
    int64_t width = call->in[ADD_NORM_WEIGHT].count;
    return (struct gpu_norm){.rows = width ? out[0].count / width : 0,
                             .width = width,
                             .groups = 1,
                             .each = 1,
                             .epsilon = a->epsilon,
                             .centred = a->mean,
                             .x = value_of(&out[0]),
                             .parts = {value_of(&call->in[0]), value_of(&call->in[1])},
                             .weight = value_of(&call->in[ADD_NORM_WEIGHT]),
                             .bias = value_of(&call->in[ADD_NORM_WEIGHT + 1]),
                             .mean = a->mean ? out[1 + MEAN].data : NULL,
                             .rstd = out[1 + (a->mean ? RSTD : RMS_RSTD)].data};
}

static struct gpu_norm groups_of(const struct op_call *call)
{
    const struct group_norm_attributes *a = call->node->attributes;
    const struct op_tensor *x = &call->in[X];
    int64_t each = 1;
    for (int i = 2; i < x->dims; i++)
        each *= x->shape[i];
    struct gpu_norm norm = norm_of(call, x->shape[1] / a->groups * each);
    norm.groups = a->groups;
    norm.each = each;
    norm.epsilon = a->epsilon;
    norm.centred = true;
    norm.mean = call->out[MEAN].data;
    norm.rstd = call->out[RSTD].data;
    return norm;
}

static void enqueue_gradients(const struct op_call *call, const struct gpu_norm *norm,
                              cudaStream_t stream)
{
    struct gpu_norm_gradients gradients = {.dout = call->d_out.data,
                                           .dx = gradient_of(&call->d_in[X]),
                                           .dweight = gradient_of(&call->d_in[WEIGHT]),
                                           .dbias = gradient_of(&call->d_in[BIAS]),
                                           .partials = call->scratch};
    gpu_norm_backward(norm, &gradients, stream);
}

static void rows_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_norm norm = rows_of(call);
    gpu_norm_forward(&norm, value_of(&call->out[0]), queue->stream);
}

static void rows_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_norm norm = rows_of(call);
    enqueue_gradients(call, &norm, queue->stream);
}

static size_t rows_scratch(const struct op_call *call, bool backward)
{
    struct gpu_norm norm = rows_of(call);
    return backward ? gpu_norm_partials(norm.rows, norm.width) * sizeof(float) : 0;
}

static void sum_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_norm norm = sum_of(call);
    gpu_norm_forward(&norm, value_of(&call->out[1]), queue->stream);
}

static void group_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_norm norm = groups_of(call);
    gpu_norm_forward(&norm, value_of(&call->out[0]), queue->stream);
}

static void group_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_norm norm = groups_of(call);
    enqueue_gradients(call, &norm, queue->stream);
}

/* Only one group of channels of one element each is summed as the other norms are. */
static size_t group_scratch(const struct op_call *call, bool backward)
{
    struct gpu_norm norm = groups_of(call);
    bool rows = norm.groups == 1 && norm.each == 1;
    return backward && rows ? gpu_norm_partials(norm.rows, norm.width) * sizeof(float) : 0;
}

const struct cuda_op cuda_op_layer_norm = {
    .name = "layer_norm",
    .forward = rows_forward,
    .backward = rows_backward,
    .scratch_bytes = rows_scratch,
};

const struct cuda_op cuda_op_rms_norm = {
    .name = "rms_norm",
    .forward = rows_forward,
    .backward = rows_backward,
    .scratch_bytes = rows_scratch,
};

const struct cuda_op cuda_op_add_norm = {
    .name = "add_norm",
    .forward = sum_forward,
};

const struct cuda_op cuda_op_group_norm = {
    .name = "group_norm",
    .forward = group_forward,
    .backward = group_backward,
    .scratch_bytes = group_scratch,
};
