/* Rows of a table on a GPU: embedding. */
#include "libworker/cuda/kernels/embedding.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"

enum { TABLE, INDEX };

static struct gpu_lookup lookup_of(const struct op_call *call)
{
    return (struct gpu_lookup){.rows = call->in[INDEX].count,
                               .width = call->in[TABLE].shape[1],
                               .index = call->in[INDEX].data};
}

static void embedding_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_lookup lookup = lookup_of(call);
    gpu_embedding_forward(&lookup, value_of(&call->in[TABLE]), value_of(&call->out[0]),
                          queue->stream);
}

static void embedding_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_lookup lookup = lookup_of(call);
    struct gpu_lookup_gradients g = {.dout = call->d_out.data,
                                     .dtable = gradient_of(&call->d_in[TABLE]),
                                     .table_rows = call->in[TABLE].shape[0],
                                     .scratch = call->scratch};
    if (g.dtable.at)
        gpu_embedding_backward(&lookup, &g, queue->stream);
}

static size_t embedding_scratch(const struct op_call *call, bool backward)
{
    struct gpu_lookup lookup = lookup_of(call);
    return backward ? gpu_embedding_bytes(lookup.rows, lookup.width) : 0;
}

const struct cuda_op cuda_op_embedding = {
    .name = "embedding",
    .forward = embedding_forward,
    .backward = embedding_backward,
    .scratch_bytes = embedding_scratch,
};
