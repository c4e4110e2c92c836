/* Rotary positions on a GPU. */
#include "libworker/cuda/kernels/rope.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/rope_scale.h"
#include "libworker/graph/op/starts.h"

enum { X, STARTS, ANGLES = 1 };

/* The second output has the cosines, then the sines. */
static void angles_fill(const struct op_call *call, cudaStream_t stream)
{
    const struct rope_attributes *a = call->node->attributes;
    int64_t half = a->size / 2, length = call->out[ANGLES].shape[0];
    float *cosines = call->out[ANGLES].data;
    struct gpu_angles angles = {.cosines = cosines,
                                .sines = cosines + length * half,
                                .length = length,
                                .half = half,
                                .past = call->pass->past,
                                .amplitude = rope_amplitude(&a->scaling)};
    for (int64_t first = 0; first < half; first += ROPE_FREQUENCIES) {
        double frequencies[ROPE_FREQUENCIES];
        int64_t count = half - first < ROPE_FREQUENCIES ? half - first : ROPE_FREQUENCIES;
        for (int64_t i = 0; i < count; i++)
            frequencies[i] =
                rope_frequency(&a->scaling, (struct rope_head){a->theta, a->size}, first + i);
        gpu_rope_angles(&angles, frequencies, first, count, stream);
    }
}

static struct gpu_rope rope_of(const struct op_call *call, bool back)
{
    const struct rope_attributes *a = call->node->attributes;
    const struct op_tensor *x = &call->in[X];
    int64_t half = a->size / 2, length = x->shape[1];
    const float *cosines = call->out[ANGLES].data;
    return (struct gpu_rope){.rows = x->shape[0] * length,
                             .width = x->shape[2],
                             .length = length,
                             .heads = a->heads,
                             .half = half,
                             .cosines = cosines,
                             .sines = cosines + length * half,
                             .starts = starts_of(call, STARTS),
                             .back = back};
}

static void rope_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_rope rope = rope_of(call, false);
    angles_fill(call, queue->stream);
    gpu_rope_rotate(&rope, value_of(&call->out[0]), false, value_of(&call->in[X]), queue->stream);
}

static void rope_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_rope rope = rope_of(call, true);
    if (call->d_in[X].data)
        gpu_rope_rotate(&rope, value_of(&call->d_in[X]), call->d_in[X].add, value_of(&call->d_out),
                        queue->stream);
}

const struct cuda_op cuda_op_rope = {
    .name = "rope", .forward = rope_forward, .backward = rope_backward};
