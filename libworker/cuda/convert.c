/* Inputs of a batch as f32 or i32, on a GPU. */
#include "libworker/cuda/kernels/batch_value.h"

#include "libworker/cuda/op.h"

static void convert_forward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct op_tensor *to = &call->out[0], *from = &call->in[0];
    gpu_batch_values((struct gpu_array){.at = to->data, .type = to->type},
                     (struct gpu_array){.at = from->data, .type = from->type}, to->count,
                     queue->stream);
}

const struct cuda_op cuda_op_convert = {.name = "convert", .forward = convert_forward};
