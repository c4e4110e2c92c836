/* Functions of rows of logits on a GPU: softmax, cross_entropy and kl_divergence. */
#include "libworker/cuda/kernels/softmax.h"

#include "libworker/cuda/kernels/elements.h"
#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"
#include "libworker/graph/op.h"
#include "libworker/graph/op/entropy.h"

enum { LOGITS, TARGETS, LOG_SUMS = 1, STUDENT = 0, TEACHER = 1 };

/* Rows of the last dimension. */
static struct gpu_rows rows_of(const struct op_tensor *tensor)
{
    int64_t width = tensor->shape[tensor->dims - 1];
    return (struct gpu_rows){width ? tensor->count / width : 0, width};
}

static void softmax_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_rows rows = rows_of(&call->out[0]);
    gpu_softmax_forward(&rows, value_of(&call->in[0]), value_of(&call->out[0]), queue->stream);
}

static void softmax_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_rows rows = rows_of(&call->out[0]);
    if (call->d_in[0].data)
        gpu_softmax_backward(&rows, value_of(&call->out[0]), call->d_out.data,
                             gradient_of(&call->d_in[0]), queue->stream);
}

/* The graph's class weights are the host's: they go along into the scratch memory. */
static struct gpu_entropy entropy_in(const struct op_call *call, cudaStream_t stream)
{
    const struct entropy_attributes *a = call->node->attributes;
    struct gpu_rows rows = rows_of(&call->in[LOGITS]);
    if (a->weights)
        gpu_numbers_put(call->scratch, a->weights, rows.width, stream);
    return (struct gpu_entropy){.rows = rows.rows,
                                .classes = rows.width,
                                .targets = call->in[TARGETS].data,
                                .smoothing = entropy_smoothing(call),
                                .weights = a->weights ? call->scratch : NULL};
}

static void entropy_loss(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_entropy entropy = entropy_in(call, queue->stream);
    gpu_entropy_forward(&entropy, value_of(&call->in[LOGITS]), value_of(&call->out[0]),
                        call->pass->trains ? call->out[LOG_SUMS].data : NULL, queue->stream);
}

static void entropy_slope(const struct op_call *call, struct cuda_queue *queue)
{
    if (!call->d_in[LOGITS].data)
        return;
    struct gpu_entropy entropy = entropy_in(call, queue->stream);
    gpu_entropy_backward(&entropy, value_of(&call->in[LOGITS]), call->out[LOG_SUMS].data,
                         call->d_out.data, gradient_of(&call->d_in[LOGITS]), queue->stream);
}

static size_t entropy_scratch(const struct op_call *call, bool backward)
{
    const struct entropy_attributes *a = call->node->attributes;
    (void)backward;
    return a->weights ? (size_t)rows_of(&call->in[LOGITS]).width * sizeof(float) : 0;
}

/* Backward computes probabilities again, of logits and one number a row. An evaluation keeps
 * nothing. */
static void entropy_keep(struct op_call *call, unsigned *keeps)
{
    struct op_tensor *sums = &call->out[LOG_SUMS];
    int64_t rows = call->pass->trains ? rows_of(&call->in[LOGITS]).rows : 0;
    sums->dims = 1;
    sums->shape[0] = sums->count = rows;
    *keeps |= OP_IN(LOGITS);
}

static struct gpu_divergence divergence_of(const struct op_call *call)
{
    struct gpu_rows rows = rows_of(&call->in[STUDENT]);
    return (struct gpu_divergence){.rows = rows.rows,
                                   .classes = rows.width,
                                   .student = value_of(&call->in[STUDENT]),
                                   .teacher = value_of(&call->in[TEACHER])};
}

static void divergence_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_divergence divergence = divergence_of(call);
    gpu_divergence_forward(&divergence, value_of(&call->out[0]), queue->stream);
}

static void divergence_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_divergence divergence = divergence_of(call);
    if (call->d_in[STUDENT].data)
        gpu_divergence_backward(&divergence, call->d_out.data, gradient_of(&call->d_in[STUDENT]),
                                queue->stream);
}

const struct cuda_op cuda_op_softmax = {
    .name = "softmax",
    .forward = softmax_forward,
    .backward = softmax_backward,
};

const struct cuda_op cuda_op_cross_entropy = {
    .name = "cross_entropy",
    .forward = entropy_loss,
    .backward = entropy_slope,
    .scratch_bytes = entropy_scratch,
    .keep = entropy_keep,
};

const struct cuda_op cuda_op_kl_divergence = {
    .name = "kl_divergence",
    .forward = divergence_forward,
    .backward = divergence_backward,
};
