/* Batch normalization on a GPU: its four rows (graph/op/batch_norm.c). */
#include "libworker/cuda/kernels/batch_norm.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"
#include "libworker/graph/op/batch_norm.h"

enum { X, SUMS, SQUARES, WEIGHT, BIAS, MEAN, VARIANCE };
enum { RUNNING, RUNNING_SUMS, RUNNING_SQUARES };

static struct gpu_channels channels_of(const struct op_call *call)
{
    const struct batch_norm_attributes *a = call->node->attributes;
    const struct op_tensor *x = &call->in[X];
    struct gpu_channels c = {.outer = 1,
                             .channels = x->shape[a->dim],
                             .inner = 1,
                             .x = value_of(x),
                             .scratch = call->scratch};
    for (int i = 0; i < a->dim; i++)
        c.outer *= x->shape[i];
    for (int i = a->dim + 1; i < x->dims; i++)
        c.inner *= x->shape[i];
    return c;
}

static size_t scratch_of(const struct op_call *call, bool backward)
{
    struct gpu_channels c = channels_of(call);
    (void)backward;
    return gpu_channels_bytes(&c);
}

static void sums_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_channels c = channels_of(call);
    gpu_channels_sums(&c, call->out[0].data, queue->stream);
}

static void sums_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_channels c = channels_of(call);
    if (call->d_in[X].data)
        gpu_channels_sums_back(&c, call->d_out.data, gradient_of(&call->d_in[X]), queue->stream);
}

static void squares_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_channels c = channels_of(call);
    gpu_channels_squares(&c, call->in[SUMS].data, call->out[0].data, queue->stream);
}

static void squares_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_channels c = channels_of(call);
    struct gpu_squares_gradients g = {.sums = call->in[SUMS].data,
                                      .dsquares = call->d_out.data,
                                      .dx = gradient_of(&call->d_in[X]),
                                      .dsums = gradient_of(&call->d_in[SUMS])};
    gpu_channels_squares_back(&c, &g, queue->stream);
}

static struct gpu_statistics statistics_of(const struct op_call *call)
{
    const struct batch_norm_attributes *a = call->node->attributes;
    return (struct gpu_statistics){.trains = call->pass->trains,
                                   .epsilon = a->epsilon,
                                   .sums = call->in[SUMS].data,
                                   .squares = call->in[SQUARES].data,
                                   .mean = call->in[MEAN].data,
                                   .variance = call->in[VARIANCE].data,
                                   .weight = call->in[WEIGHT].data,
                                   .bias = call->in[BIAS].data};
}

static void norm_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_channels c = channels_of(call);
    struct gpu_statistics s = statistics_of(call);
    gpu_batch_norm(&c, &s, value_of(&call->out[0]), queue->stream);
}

static void norm_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_channels c = channels_of(call);
    struct gpu_statistics s = statistics_of(call);
    struct gpu_batch_norm_gradients g = {.dout = call->d_out.data,
                                         .dx = gradient_of(&call->d_in[X]),
                                         .dsums = gradient_of(&call->d_in[SUMS]),
                                         .dsquares = gradient_of(&call->d_in[SQUARES]),
                                         .dweight = gradient_of(&call->d_in[WEIGHT]),
                                         .dbias = gradient_of(&call->d_in[BIAS])};
    gpu_batch_norm_back(&c, &s, &g, queue->stream);
}

static void running_forward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct batch_norm_attributes *a = call->node->attributes;
    struct gpu_running r = {.channels = call->out[0].count,
                            .variance = a->variance,
                            .momentum = a->momentum,
                            .running = call->in[RUNNING].data,
                            .sums = call->in[RUNNING_SUMS].data,
                            .squares = call->in[RUNNING_SQUARES].data};
    gpu_batch_norm_running(&r, call->out[0].data, queue->stream);
}

const struct cuda_op cuda_op_batch_norm_sums = {
    .name = "batch_norm_sums",
    .forward = sums_forward,
    .backward = sums_backward,
    .scratch_bytes = scratch_of,
};

const struct cuda_op cuda_op_batch_norm_squares = {
    .name = "batch_norm_squares",
    .forward = squares_forward,
    .backward = squares_backward,
    .scratch_bytes = scratch_of,
};

const struct cuda_op cuda_op_batch_norm = {
    .name = "batch_norm",
    .forward = norm_forward,
    .backward = norm_backward,
    .scratch_bytes = scratch_of,
};

const struct cuda_op cuda_op_batch_norm_running = {
    .name = "batch_norm_running",
    .forward = running_forward,
};
