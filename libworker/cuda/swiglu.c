/* SwiGLU on a GPU. */
#include "libworker/cuda/kernels/swiglu.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"

static int64_t inner_of(const struct op_call *call)
{
    return call->out[0].shape[call->out[0].dims - 1];
}

static void swiglu_forward(const struct op_call *call, struct cuda_queue *queue)
{
    int64_t inner = inner_of(call);
    gpu_swiglu_forward(call->out[0].count / inner, inner, value_of(&call->out[0]),
                       value_of(&call->in[0]), queue->stream);
}

static void swiglu_backward(const struct op_call *call, struct cuda_queue *queue)
{
    int64_t inner = inner_of(call), size[] = {call->out[0].count / inner, inner};
    if (call->d_in[0].data)
        gpu_swiglu_backward(size, gradient_of(&call->d_in[0]), value_of(&call->in[0]),
                            call->d_out.data, queue->stream);
}

const struct cuda_op cuda_op_swiglu = {
    .name = "swiglu", .forward = swiglu_forward, .backward = swiglu_backward};
