/* Windows of images on a GPU: pool2d. */
#include <worker/graph.h>

#include "libworker/cuda/kernels/pool.h"
#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"

static struct gpu_pool pool_of(const struct op_call *call)
{
    const struct wk_pool_options *o = call->node->attributes;
    const int64_t *in = call->in[0].shape, *out = call->out[0].shape;
    return (struct gpu_pool){.planes = in[0] * in[1],
                             .height = in[2],
                             .width = in[3],
                             .out_height = out[2],
                             .out_width = out[3],
                             .kernel = o->kernel,
                             .stride = o->stride,
                             .padding = o->padding,
                             .max = o->kind == WK_REDUCE_MAX};
}

static void pool2d_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_pool pool = pool_of(call);
    gpu_pool2d_forward(&pool, value_of(&call->in[0]), value_of(&call->out[0]), queue->stream);
}

static void pool2d_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_pool pool = pool_of(call);
    if (call->d_in[0].data)
        gpu_pool2d_backward(&pool, value_of(&call->in[0]), call->d_out.data,
                            gradient_of(&call->d_in[0]), queue->stream);
}

const struct cuda_op cuda_op_pool2d = {
    .name = "pool2d",
    .forward = pool2d_forward,
    .backward = pool2d_backward,
};
