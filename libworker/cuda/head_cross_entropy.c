/* head_cross_entropy on a GPU. Forward: logits of HEAD_ROWS rows at a time are in scratch memory. A
 * kernel makes losses of them and, in training, slopes. The slopes are kept instead of
 * probabilities, in the compute type, not yet multiplied by the gradients of losses.
 * Backward: the rows of x are multiplied by those for the table's gradient, and the rows of the
 * result for that of x. So logits are never all in memory, nor computed again. */
#include <worker/graph.h>

#include "libworker/cuda/kernels/entropy_head.h"
#include "libworker/cuda/op.h"
#include "libworker/cuda/products.h"
#include "libworker/graph/op/entropy.h"

enum { X, TABLE, TARGETS, PROBS = 1 };

struct head_sizes {
    int64_t rows, classes, width;
    int64_t stride; /* of logits and slopes: whole vectors, which products are faster with */
};

static int64_t rounded_up(int64_t x, int64_t step)
{
    return (x + step - 1) / step * step;
}

static struct head_sizes sizes_of(const struct op_call *call)
{
    const struct op_tensor *table = &call->in[TABLE];
    struct head_sizes s = {
        .rows = call->out[0].count, .classes = table->shape[0], .width = table->shape[1]};
    s.stride = rounded_up(s.classes, HEAD_STRIDE_STEP);
    return s;
}

static int64_t rows_at_once(const struct head_sizes *s)
{
    return s->rows < HEAD_ROWS ? s->rows : HEAD_ROWS;
}

static size_t workspace_of(const struct head_sizes *s, bool backward)
{
    size_t x = lt_workspace_bytes(s->rows, s->width, 1);
    size_t table = lt_workspace_bytes(s->classes, s->width, 1);
    if (!backward)
        return lt_workspace_bytes(rows_at_once(s), s->classes, 1);
    return x > table ? x : table;
}

/* Weights of classes are the graph's, in the host's memory. */
static const float *weights_there(struct products *products, const struct head_sizes *s)
{
    const struct entropy_attributes *a = products->call->node->attributes;
    if (!a->weights)
        return NULL;
    float *to = products_take(products, WK_F32, s->classes);
    (void)cuda_check(products->queue,
                     cudaMemcpyAsync(to, a->weights, (size_t)s->classes * sizeof(*to),
                                     cudaMemcpyHostToDevice, products->queue->stream),
                     "send weights of classes");
    return to;
}

static float smoothing_of(const struct op_call *call)
{
    const struct entropy_attributes *a = call->node->attributes;
    return call->pass->trains ? a->smoothing + (float)call->pass->smoothing : 0;
}

static struct typed_array from_element(struct typed_array x, int64_t i)
{
    size_t each = x.type == WK_F32 ? sizeof(float) : sizeof(uint16_t);
    x.at = x.at ? (const char *)x.at + (size_t)i * each : NULL;
    return x;
}

static void head_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct head_sizes s = sizes_of(call);
    struct products products = products_begin(call, queue, workspace_of(&s, false));
    if (s.rows == 0)
        return;
    const float *weights = weights_there(&products, &s);
    struct typed_array x = {products_factor(&products, &call->in[X]), call->compute};
    const void *table = products_factor(&products, &call->in[TABLE]);
    float *logits = products_take(&products, WK_F32, rows_at_once(&s) * s.stride);
    struct typed_array slopes = {call->pass->trains ? call->out[PROBS].data : NULL, call->compute};
    for (int64_t r = 0; r < s.rows; r += HEAD_ROWS) {
        int64_t n = s.rows - r < HEAD_ROWS ? s.rows - r : HEAD_ROWS;
        products_run(&products, (struct lt_product){
                                    .m = n,
                                    .n = s.classes,
                                    .k = s.width,
                                    .result = WK_F32,
                                    .a = {from_element(x, r * s.width).at, s.width, 0, false},
                                    .b = {table, s.width, 0, true},
                                    .d = logits,
                                    .d_stride = s.stride,
                                });
        struct head_rows rows = {
            .rows = n,
            .classes = s.classes,
            .logits = logits,
            .stride = s.stride,
            .targets = (const int32_t *)call->in[TARGETS].data + r,
            .weights = weights,
            .smoothing = smoothing_of(call),
            .losses = from_element((struct typed_array){call->out[0].data, call->out[0].type}, r),
            .slopes = from_element(slopes, r * s.stride),
            .slopes_stride = s.stride,
        };
        head_losses(&rows, queue->stream);
        products_check(&products, "losses of logits");
    }
}

/* dtable = slopes^T x, with the rows of x times their factors. */
static void table_backward(struct products *products, const struct head_sizes *s,
                           const struct head_factors *factors)
{
    const struct op_call *call = products->call;
    const struct op_tensor *x = &call->in[X], *dtable = &call->d_in[TABLE];
    void *scaled = products_take(products, call->compute, x->count);
    head_scale(factors, (struct typed_array){scaled, call->compute},
               (struct typed_array){x->data, x->type}, products->queue->stream);
    products_check(products, "scale rows");
    products_run(products, (struct lt_product){
                               .m = s->classes,
                               .n = s->width,
                               .k = s->rows,
                               .result = WK_F32,
                               .a = {call->out[PROBS].data, s->stride, 0, true},
                               .b = {scaled, s->width, 0, false},
                               .d = dtable->data,
                               .d_stride = s->width,
                               .beta = dtable->add ? 1 : 0,
                           });
}

/* dx = slopes table, its rows times their factors. */
static void x_backward(struct products *products, const struct head_sizes *s,
                       const struct head_factors *factors)
{
    const struct op_call *call = products->call;
    const struct op_tensor *dx = &call->d_in[X];
    const void *table = products_factor(products, &call->in[TABLE]);
    float *sums = dx->add ? products_take(products, WK_F32, dx->count) : dx->data;
    products_run(products, (struct lt_product){
                               .m = s->rows,
                               .n = s->width,
                               .k = s->classes,
                               .result = WK_F32,
                               .a = {call->out[PROBS].data, s->stride, 0, false},
                               .b = {table, s->width, 0, false},
                               .d = sums,
                               .d_stride = s->width,
                           });
    head_add(factors, dx->data, sums, dx->add, products->queue->stream);
    products_check(products, "scale rows");
}

static void head_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct head_sizes s = sizes_of(call);
    struct products products = products_begin(call, queue, workspace_of(&s, true));
    struct head_factors factors = {
        .rows = s.rows,
        .width = s.width,
        .dlosses = call->d_out.data,
        .targets = call->in[TARGETS].data,
        .weights = weights_there(&products, &s),
    };
    if (call->d_in[TABLE].data)
        table_backward(&products, &s, &factors);
    if (call->d_in[X].data)
        x_backward(&products, &s, &factors);
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    const struct entropy_attributes *a = call->node->attributes;
    struct head_sizes s = sizes_of(call);
    size_t bytes = products_workspace_bytes(workspace_of(&s, backward)) +
                   products_factor_bytes(call, &call->in[TABLE]);
    bytes += a->weights ? products_taken(WK_F32, s.classes) : 0;
    if (!backward)
        return bytes + products_factor_bytes(call, &call->in[X]) +
               products_taken(WK_F32, rows_at_once(&s) * s.stride);
    bytes += products_taken(call->compute, call->in[X].count);
    return bytes + (call->d_in[X].add ? products_taken(WK_F32, call->in[X].count) : 0);
}

/* Slopes in training, else nothing. */
static void head_keep(struct op_call *call, unsigned *keeps)
{
    struct op_tensor *slopes = &call->out[PROBS];
    struct head_sizes s = sizes_of(call);
    int64_t stride = call->pass->trains ? s.stride : 0;
    (void)keeps;
    slopes->type = call->compute;
    slopes->shape[slopes->dims - 1] = stride;
    slopes->count = s.rows * stride;
}

const struct cuda_op cuda_op_head_cross_entropy = {
    .name = "head_cross_entropy",
    .forward = head_forward,
    .backward = head_backward,
    .scratch_bytes = scratch_bytes,
    .keep = head_keep,
};
