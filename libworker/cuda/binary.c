/* add, subtract and multiply on a GPU, with b repeated along the dimensions that it lacks. */
#include "libworker/cuda/kernels/repeat.h"

#include "libworker/cuda/kernels/curve.h"
#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"

_Static_assert((int)REPEAT_RUNS_MAX == WK_TENSOR_DIMS_MAX, "each dimension may be a run");

enum { A, B };

static struct gpu_repeat repeat_of(const struct op_call *call)
{
    const struct op_tensor *a = &call->out[0], *b = &call->in[B];
    bool moves[WK_TENSOR_DIMS_MAX];
    int missing = a->dims - b->dims;
    for (int i = 0; i < a->dims; i++)
        moves[i] = i >= missing && b->shape[i - missing] == a->shape[i];
    return gpu_repeat_of(a->dims, a->shape, moves);
}

static bool is_straight(const struct gpu_repeat *repeat)
{
    return repeat->n == 1 && repeat->moves[0];
}

static struct gpu_target target_of(const struct op_tensor *tensor)
{
    return (struct gpu_target){.value = value_of(tensor), .add = tensor->add};
}

static void pair_forward(const struct op_call *call, const struct cuda_queue *queue,
                         enum gpu_pair_kind kind)
{
    struct gpu_repeat repeat = repeat_of(call);
    struct gpu_pair pair = {.kind = kind, .a = value_of(&call->in[A]), .b = value_of(&call->in[B])};
    gpu_repeat_map(&repeat, target_of(&call->out[0]), &pair, queue->stream);
}

/* The gradient of b: dout times `factor`, over `divisor`. */
static void b_backward(const struct op_call *call, const struct cuda_queue *queue,
                       struct gpu_value factor, double divisor)
{
    struct gpu_repeat repeat = repeat_of(call);
    struct gpu_value dout = value_of(&call->d_out);
    struct gpu_repeat_terms sum = {
        .x = dout, .factor = factor, .divisor = divisor, .scratch = call->scratch};
    struct gpu_curve sign = {
        .kind = CURVE_SCALE, .number = (float)divisor, .count = call->d_out.count};
    struct gpu_pair product = {.kind = PAIR_MULTIPLY, .a = dout, .b = factor};
    if (!call->d_in[B].data)
        return;
    if (!is_straight(&repeat))
        gpu_repeat_sum(&repeat, target_of(&call->d_in[B]), &sum, queue->stream);
    else if (factor.at)
        gpu_repeat_map(&repeat, target_of(&call->d_in[B]), &product, queue->stream);
    else
        gpu_curve_backward(&sign, gradient_of(&call->d_in[B]), factor, dout.at, queue->stream);
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    struct gpu_repeat repeat = repeat_of(call);
    return backward && !is_straight(&repeat) ? gpu_repeat_sum_bytes(&repeat) : 0;
}

static void add_forward(const struct op_call *call, struct cuda_queue *queue)
{
    pair_forward(call, queue, PAIR_ADD);
}

static void add_backward(const struct op_call *call, struct cuda_queue *queue)
{
    b_backward(call, queue, (struct gpu_value){.at = NULL}, 1);
}

static void subtract_forward(const struct op_call *call, struct cuda_queue *queue)
{
    pair_forward(call, queue, PAIR_SUBTRACT);
}

static void subtract_backward(const struct op_call *call, struct cuda_queue *queue)
{
    b_backward(call, queue, (struct gpu_value){.at = NULL}, -1);
}

static void multiply_forward(const struct op_call *call, struct cuda_queue *queue)
{
    pair_forward(call, queue, PAIR_MULTIPLY);
}

static void multiply_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_repeat repeat = repeat_of(call);
    struct gpu_pair pair = {
        .kind = PAIR_MULTIPLY, .a = value_of(&call->d_out), .b = value_of(&call->in[B])};
    if (call->d_in[A].data)
        gpu_repeat_map(&repeat, target_of(&call->d_in[A]), &pair, queue->stream);
    b_backward(call, queue, value_of(&call->in[A]), 1);
}

const struct cuda_op cuda_op_add = {.name = "add",
                                    .forward = add_forward,
                                    .backward = add_backward,
                                    .scratch_bytes = scratch_bytes};
const struct cuda_op cuda_op_subtract = {.name = "subtract",
                                         .forward = subtract_forward,
                                         .backward = subtract_backward,
                                         .scratch_bytes = scratch_bytes};
const struct cuda_op cuda_op_multiply = {.name = "multiply",
                                         .forward = multiply_forward,
                                         .backward = multiply_backward,
                                         .scratch_bytes = scratch_bytes};
