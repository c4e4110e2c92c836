/* linear on a GPU: a product for each weight, of which adjacent ones are one (graph/op/linear.h).
 * The bias is added by the product itself, and the residual is what the product is added to. A bias
 * is rounded to the result's type before. */
#include "libworker/graph/op/linear.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/products.h"

/* Rows, and the widths of x and y. */
struct linear_sizes {
    int64_t rows, in, out;
};

static struct linear_sizes sizes_of(const struct op_call *call)
{
    const struct op_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t out = y->shape[y->dims - 1];
    return (struct linear_sizes){y->count / out, x->shape[x->dims - 1], out};
}

static size_t workspace_of(const struct op_call *call, bool backward)
{
    struct linear_sizes s = sizes_of(call);
    size_t most = lt_workspace_bytes(s.rows, s.out, 1), other;
    if (!backward)
        return most;
    most = lt_workspace_bytes(s.rows, s.in, 1);
    other = lt_workspace_bytes(s.in, s.out, 1);
    return most > other ? most : other;
}

/* Products write f32 and the compute type. */
static enum wk_dtype result_type(const struct op_call *call)
{
    enum wk_dtype type = call->out[0].type;
    return type == call->compute ? type : WK_F32;
}

/* Something that the result is made from, in its type. */
static const void *as_result(struct products *products, const struct op_tensor *x)
{
    enum wk_dtype type = result_type(products->call);
    if (!x->data || x->type == type)
        return x->data;
    void *to = products_take(products, type, x->count);
    products_convert(products, (struct typed_array){to, type},
                     (struct typed_array){x->data, x->type}, x->count);
    return to;
}

static const void *element_at(const void *x, enum wk_dtype type, int64_t i)
{
    size_t each = type == WK_F32 ? sizeof(float) : sizeof(uint16_t);
    return x ? (const char *)x + (size_t)i * each : NULL;
}

static void *place_at(void *x, enum wk_dtype type, int64_t i)
{
    return (void *)(uintptr_t)element_at(x, type, i);
}

static void linear_forward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct op_tensor *y = &call->out[0];
    struct linear_sizes s = sizes_of(call);
    struct products products = products_begin(call, queue, workspace_of(call, false));
    struct linear_part parts[LINEAR_PARTS_MAX];
    enum wk_dtype type = result_type(call);
    bool turned = linear_is_turned(call->node);
    if (s.rows == 0)
        return;
    const void *x = products_factor(&products, &call->in[0]);
    const void *bias = as_result(&products, &call->in[LINEAR_BIAS]);
    const void *residual = as_result(&products, &call->in[LINEAR_RESIDUAL]);
    void *to = y->type == type ? y->data : products_take(&products, type, y->count);
    int n_parts = linear_parts(call, call->in, linear_joins(call, call->in), parts);
    for (int i = 0; i < n_parts; i++) {
        int64_t at = parts[i].at, out = parts[i].out;
        const void *weight = products_factor(&products, &parts[i].weight);
        products_run(&products, (struct lt_product){
                                    .m = s.rows,
                                    .n = out,
                                    .k = s.in,
                                    .result = type,
                                    .a = {x, s.in, 0, false},
                                    .b = {weight, turned ? s.in : out, 0, turned},
                                    .c = {element_at(residual, type, at), s.out, 0, false},
                                    .d = place_at(to, type, at),
                                    .d_stride = s.out,
                                    .bias = element_at(bias, type, at),
                                    .beta = residual ? 1 : 0,
                                });
    }
    if (to != y->data)
        products_convert(&products, (struct typed_array){y->data, y->type},
                         (struct typed_array){to, type}, y->count);
}

/* dw = x^T dy, or dy^T x of turned weights. */
static void backward_weights(struct products *products, const void *dy)
{
    const struct op_call *call = products->call;
    struct linear_sizes s = sizes_of(call);
    struct linear_part parts[LINEAR_PARTS_MAX];
    bool turned = linear_is_turned(call->node);
    bool join = linear_joins(call, call->in) && linear_joins(call, call->d_in);
    int n_parts = linear_parts(call, call->d_in, join, parts);
    const void *x = n_parts ? products_factor(products, &call->in[0]) : NULL;
    for (int i = 0; i < n_parts; i++) {
        struct lt_matrix from_x = {x, s.in, 0, !turned};
        struct lt_matrix from_dy = {element_at(dy, call->compute, parts[i].at), s.out, 0, turned};
        products_run(products, (struct lt_product){
                                   .m = turned ? parts[i].out : s.in,
                                   .n = turned ? s.in : parts[i].out,
                                   .k = s.rows,
                                   .result = WK_F32,
                                   .a = turned ? from_dy : from_x,
                                   .b = turned ? from_x : from_dy,
                                   .d = parts[i].weight.data,
                                   .d_stride = turned ? s.in : parts[i].out,
                                   .beta = parts[i].weight.add ? 1 : 0,
                               });
    }
}

static void backward_x(struct products *products, const void *dy)
{
    const struct op_call *call = products->call;
    const struct op_tensor *dx = &call->d_in[0];
    struct linear_sizes s = sizes_of(call);
    struct linear_part parts[LINEAR_PARTS_MAX];
    bool turned = linear_is_turned(call->node);
    int n_parts = linear_parts(call, call->in, linear_joins(call, call->in), parts);
    for (int i = 0; i < n_parts; i++) {
        const void *weight = products_factor(products, &parts[i].weight);
        products_run(products,
                     (struct lt_product){
                         .m = s.rows,
                         .n = s.in,
                         .k = parts[i].out,
                         .result = dx->type,
                         .a = {element_at(dy, call->compute, parts[i].at), s.out, 0, false},
                         .b = {weight, turned ? s.in : parts[i].out, 0, !turned},
                         .d = dx->data,
                         .d_stride = s.in,
                         .slopes_at = call->in[LINEAR_SLOPES].data,
                         .slopes_stride = s.in,
                         .beta = i > 0 || dx->add ? 1 : 0,
                     });
    }
}

/* The sums of dy, which is also converted to `copy`, if not NULL. A dy that is rounded already has
 * another sum: it is off by half a unit of each of its elements at most. */
static void backward_bias(struct products *products, void *copy)
{
    const struct op_call *call = products->call;
    const struct op_tensor *dbias = &call->d_in[LINEAR_BIAS];
    struct linear_sizes s = sizes_of(call);
    struct column_sums sums = {
        .x = {call->d_out.data, call->d_out.type},
        .rows = s.rows,
        .cols = s.out,
        .parts = products_take(products, WK_F32, column_parts(s.rows) * s.out),
        .sums = dbias->data,
        .add = dbias->add,
        .copy = {copy, call->compute},
    };
    column_sums_add_up(&sums, products->queue->stream);
    products_check(products, "add up a bias");
}

static void linear_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct products products = products_begin(call, queue, workspace_of(call, true));
    bool bias = call->d_in[LINEAR_BIAS].data, copies = bias && call->compute != call->d_out.type;
    void *copy = copies ? products_take(&products, call->compute, call->d_out.count) : NULL;
    const void *dy = copies ? copy : products_factor(&products, &call->d_out);
    if (bias)
        backward_bias(&products, copy);
    backward_weights(&products, dy);
    if (call->d_in[0].data)
        backward_x(&products, dy);
}

/* Of a part that is joined, all its weights. */
static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    struct linear_sizes s = sizes_of(call);
    enum wk_dtype type = result_type(call);
    size_t bytes = products_workspace_bytes(workspace_of(call, backward));
    for (int i = 0; i < LINEAR_WEIGHTS + LINEAR_PARTS_MAX; i++)
        bytes += products_factor_bytes(call, &call->in[i]);
    if (backward)
        return bytes + products_factor_bytes(call, &call->d_out) +
               products_taken(WK_F32, column_parts(s.rows) * s.out);
    bytes += call->in[LINEAR_BIAS].type == type ? 0 : products_taken(type, s.out);
    bytes += call->in[LINEAR_RESIDUAL].type == type ? 0 : products_taken(type, call->out[0].count);
    return bytes + (call->out[0].type == type ? 0 : products_taken(type, call->out[0].count));
}

/* Products of several weights add up to dx, so it is f32 there. */
static unsigned linear_narrows(const struct node *node)
{
    return OP_OUT(0) | (linear_weights(node) == 1 ? OP_IN(0) : 0);
}

/* Rows of slopes are x's. */
static bool linear_bends(const struct node *node)
{
    const struct wk_tensor *x = node->in[0];
    return x->shape[x->dims - 1].fixed % LT_SLOPES_STEP == 0;
}

const struct cuda_op cuda_op_linear = {
    .name = "linear",
    .forward = linear_forward,
    .backward = linear_backward,
    .scratch_bytes = scratch_bytes,
    .narrows = linear_narrows,
    .bends = linear_bends,
};
