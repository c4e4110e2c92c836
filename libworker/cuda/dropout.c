/* Dropout on a GPU, with the host's choice of elements. */
#include "libworker/cuda/kernels/dropout.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/tile.h"

_Static_assert((int)DROPOUT_TILE == TILE_MAX, "keys are drawn for tiles of the same size");

static void drop(const struct op_call *call, const struct op_tensor *to,
                 const struct op_tensor *from, cudaStream_t stream)
{
    const struct dropout_attributes *a = call->node->attributes;
    const struct op_pass *pass = call->pass;
    double share = a->share < 0 ? pass->dropout : a->share;
    struct gpu_dropout dropout = {.samples = pass->samples,
                                  .each = pass->samples ? to->count / pass->samples : 0,
                                  .seed = pass->seed,
                                  .first_sample = (uint64_t)pass->first_sample,
                                  .keys = pass->keys,
                                  .block = (uint64_t)call->node->block,
                                  .place = (uint64_t)call->node->place,
                                  .keep = pass->trains ? (float)(1 - share) : 1};
    gpu_drop(&dropout, value_of(to), to->add, value_of(from), stream);
}

static void dropout_forward(const struct op_call *call, struct cuda_queue *queue)
{
    drop(call, &call->out[0], &call->in[0], queue->stream);
}

static void dropout_backward(const struct op_call *call, struct cuda_queue *queue)
{
    if (call->d_in[0].data)
        drop(call, &call->d_in[0], &call->d_out, queue->stream);
}

const struct cuda_op cuda_op_dropout = {
    .name = "dropout", .forward = dropout_forward, .backward = dropout_backward};
