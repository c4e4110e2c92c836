/* Losses of pairs on a GPU, element by element: squared_error and binary_cross_entropy. */
#include "libworker/cuda/kernels/losses.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"

static struct gpu_pair pair_of(const struct op_call *call, enum gpu_loss loss)
{
    return (struct gpu_pair){.loss = loss,
                             .count = call->in[0].count,
                             .x = value_of(&call->in[0]),
                             .target = value_of(&call->in[1])};
}

static void enqueue_losses(const struct op_call *call, enum gpu_loss loss, struct cuda_queue *queue)
{
    struct gpu_pair pair = pair_of(call, loss);
    gpu_pair_forward(&pair, value_of(&call->out[0]), queue->stream);
}

static void enqueue_slopes(const struct op_call *call, enum gpu_loss loss, struct cuda_queue *queue)
{
    struct gpu_pair pair = pair_of(call, loss);
    const struct gpu_gradient gradients[2] = {gradient_of(&call->d_in[0]),
                                              gradient_of(&call->d_in[1])};
    gpu_pair_backward(&pair, call->d_out.data, gradients, queue->stream);
}

static void squares_forward(const struct op_call *call, struct cuda_queue *queue)
{
    enqueue_losses(call, GPU_SQUARED_ERROR, queue);
}

static void squares_backward(const struct op_call *call, struct cuda_queue *queue)
{
    enqueue_slopes(call, GPU_SQUARED_ERROR, queue);
}

static void binary_forward(const struct op_call *call, struct cuda_queue *queue)
{
    enqueue_losses(call, GPU_BINARY_CROSS_ENTROPY, queue);
}

static void binary_backward(const struct op_call *call, struct cuda_queue *queue)
{
    enqueue_slopes(call, GPU_BINARY_CROSS_ENTROPY, queue);
}

const struct cuda_op cuda_op_squared_error = {
    .name = "squared_error",
    .forward = squares_forward,
    .backward = squares_backward,
};

const struct cuda_op cuda_op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .forward = binary_forward,
    .backward = binary_backward,
};
