/* Operations that are a function of one element, on a GPU. */
#include "libworker/cuda/kernels/curve.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"
#include "libworker/graph/op.h"
#include "libworker/graph/op/attributes.h"

static void curve_forward(const struct op_call *call, const struct cuda_queue *queue,
                          struct gpu_curve curve)
{
    curve.count = call->out[0].count;
    gpu_curve_forward(&curve, value_of(&call->out[0]), value_of(&call->in[0]), queue->stream);
}

/* Backward reads the input or the result, whichever the row keeps. */
static void curve_backward(const struct op_call *call, const struct cuda_queue *queue,
                           struct gpu_curve curve)
{
    unsigned keeps = call->node->row->keeps;
    struct gpu_value kept = {.at = NULL};
    if (keeps & OP_OUT(0))
        kept = value_of(&call->out[0]);
    else if (keeps & OP_IN(0))
        kept = value_of(&call->in[0]);
    curve.count = call->d_in[0].count;
    curve.low = call->d_in[0].type;
    if (call->d_in[0].data)
        gpu_curve_backward(&curve, gradient_of(&call->d_in[0]), kept, call->d_out.data,
                           queue->stream);
}

static unsigned curve_narrows(const struct node *node)
{
    (void)node;
    return OP_IN(0);
}

static struct gpu_curve scale_of(const struct op_call *call)
{
    const struct scale_attributes *scale = call->node->attributes;
    return (struct gpu_curve){.kind = CURVE_SCALE, .number = (float)scale->factor};
}

static struct gpu_curve leaky_relu_of(const struct op_call *call)
{
    const struct leaky_relu_attributes *leaky_relu = call->node->attributes;
    return (struct gpu_curve){.kind = CURVE_LEAKY_RELU, .number = (float)leaky_relu->slope};
}

#define CURVE_OP(op, curve)                                                                        \
    static void op##_forward(const struct op_call *call, struct cuda_queue *queue)                 \
    {                                                                                              \
        curve_forward(call, queue, curve);                                                         \
    }                                                                                              \
    static void op##_backward(const struct op_call *call, struct cuda_queue *queue)                \
    {                                                                                              \
        curve_backward(call, queue, curve);                                                        \
    }                                                                                              \
    const struct cuda_op cuda_op_##op = {                                                          \
        .name = #op, .forward = op##_forward, .backward = op##_backward, .narrows = curve_narrows}
#define CURVE(kind_)                                                                               \
    (struct gpu_curve)                                                                             \
    {                                                                                              \
        .kind = (kind_)                                                                            \
    }

CURVE_OP(gelu, CURVE(CURVE_GELU));
CURVE_OP(gelu_erf, CURVE(CURVE_GELU_ERF));
CURVE_OP(leaky_relu, leaky_relu_of(call));
CURVE_OP(relu, CURVE(CURVE_RELU));
CURVE_OP(scale, scale_of(call));
CURVE_OP(sigmoid, CURVE(CURVE_SIGMOID));
CURVE_OP(silu, CURVE(CURVE_SILU));
CURVE_OP(tanh, CURVE(CURVE_TANH));
