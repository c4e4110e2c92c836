/* Sum, mean or maximum over one dimension, on a GPU. */
#include "libworker/cuda/kernels/largest.h"
#include "libworker/cuda/kernels/repeat.h"
#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/move.h"

static const struct reduce_attributes *attributes_of(const struct op_call *call)
{
    return call->node->attributes;
}

/* The result, along the dimension that it lacks. */
static struct gpu_repeat repeat_of(const struct op_call *call)
{
    const struct op_tensor *x = &call->in[0];
    int dim = attributes_of(call)->dim;
    int64_t size[] = {move_outer(x, dim), x->shape[dim], move_inner(x, dim)};
    return gpu_repeat_of(3, size, (bool[]){true, false, true});
}

static double divisor_of(const struct op_call *call)
{
    const struct reduce_attributes *a = attributes_of(call);
    return a->kind == WK_REDUCE_MEAN ? (double)call->in[0].shape[a->dim] : 1;
}

static struct gpu_largest largest_of(const struct op_call *call)
{
    const struct op_tensor *x = &call->in[0];
    int dim = attributes_of(call)->dim;
    return (struct gpu_largest){.outer = move_outer(x, dim),
                                .n = x->shape[dim],
                                .inner = move_inner(x, dim),
                                .x = value_of(x)};
}

static void reduce_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_repeat repeat = repeat_of(call);
    struct gpu_repeat_terms sum = {
        .x = value_of(&call->in[0]), .divisor = divisor_of(call), .scratch = call->scratch};
    struct gpu_largest largest = largest_of(call);
    if (attributes_of(call)->kind == WK_REDUCE_MAX)
        gpu_largest_forward(&largest, value_of(&call->out[0]), queue->stream);
    else
        gpu_repeat_sum(&repeat, (struct gpu_target){.value = value_of(&call->out[0])}, &sum,
                       queue->stream);
}

static void reduce_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_repeat repeat = repeat_of(call);
    struct gpu_target dx = {.value = value_of(&call->d_in[0]), .add = call->d_in[0].add};
    struct gpu_pair share = {
        .kind = PAIR_SHARE, .number = 1.0f / (float)divisor_of(call), .b = value_of(&call->d_out)};
    struct gpu_largest largest = largest_of(call);
    if (!call->d_in[0].data)
        return;
    if (attributes_of(call)->kind == WK_REDUCE_MAX)
        gpu_largest_backward(&largest, gradient_of(&call->d_in[0]), call->d_out.data,
                             queue->stream);
    else
        gpu_repeat_map(&repeat, dx, &share, queue->stream);
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    struct gpu_repeat repeat = repeat_of(call);
    bool sums = !backward && attributes_of(call)->kind != WK_REDUCE_MAX;
    return sums ? gpu_repeat_sum_bytes(&repeat) : 0;
}

const struct cuda_op cuda_op_reduce = {.name = "reduce",
                                       .forward = reduce_forward,
                                       .backward = reduce_backward,
                                       .scratch_bytes = scratch_bytes};
