/* y[rows, out] = x[rows, in] weight + bias + residual. Inputs: x, up to three weights with their
 * outputs side by side, bias, residual. The residual is not in the public call: a rewriting of the
 * graph sets it (trace.c). */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/factor.h"
#include "libworker/graph/op/linear.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { ROWS_AT_ONCE = 256 }; /* of a result that is not kept in float */
static const unsigned weight_inputs = OP_IN(1) | OP_IN(2) | OP_IN(3);

static int weight_shape(const struct op_signature *s, int i, struct dim *out, struct error *err)
{
    char text[TENSOR_TEXT_MAX], wanted[DIM_TEXT_MAX];
    const struct wk_tensor *w = s->in[i];
    bool turned = ((const struct linear_attributes *)s->attributes)->turned;
    struct dim in = rule_last(s->in[0]);
    if (!s->in[i - 1])
        return error_set(err, WK_EINVAL, "input %d is NULL, but input %d is a weight", i - 1, i);
    if (w->dims != 2 || !dim_is_fixed(w->shape[!turned]) || !dim_equal(w->shape[turned], in))
        return error_set(err, WK_EINVAL, "input %d is %s; for this x it takes %s%s%s", i,
                         tensor_text(w, text), turned ? "[out, " : "[", dim_text(in, wanted),
                         turned ? "]" : ", out]");
    out->fixed += w->shape[!turned].fixed;
    return 0;
}

static int residual_shape(const struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX], wanted[TENSOR_TEXT_MAX];
    const struct wk_tensor *residual = s->n_in > LINEAR_RESIDUAL ? s->in[LINEAR_RESIDUAL] : NULL;
    if (!residual || tensor_same_shape(residual, &s->out[0]))
        return 0;
    return error_set(err, WK_EINVAL, "the residual is %s; it takes the result's shape, %s",
                     tensor_text(residual, text), tensor_text(&s->out[0], wanted));
}

static int linear_shape(struct op_signature *s, struct error *err)
{
    struct dim out = {0};
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, 0, (int[]){1, WK_TENSOR_DIMS_MAX}, err);
    for (int i = LINEAR_WEIGHTS; i < LINEAR_WEIGHTS + LINEAR_PARTS_MAX && !rc; i++) {
        if (i < s->n_in && s->in[i])
            rc = weight_shape(s, i, &out, err);
    }
    if (!rc)
        rc = rule_vector(s, LINEAR_BIAS, out, err);
    if (rc)
        return rc;
    s->out[0] = rule_output(s->in[0], 0);
    s->out[0].shape[s->out[0].dims - 1] = out;
    return residual_shape(s, err);
}

/* The part's weight as a factor [in, out], or [out, in] if `back`. */
static struct factor weight_factor(const struct op_call *call, const struct linear_part *part,
                                   int64_t in, bool back, uint8_t **room)
{
    bool turned = linear_is_turned(call->node);
    struct factor f = op_factor(call, &part->weight, turned ? in : part->out, room);
    f.turned = turned != back;
    return f;
}

/* The residual and the bias are put there first and the product added, which saves a pass. */
static float put_first(const struct op_call *call, float *y, int64_t first, int64_t rows)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *residual = &call->in[LINEAR_RESIDUAL];
    int64_t out = call->out[0].shape[call->out[0].dims - 1], count = rows * out;
    const float *x = residual->data ? tile_read(kernels, residual, first * out, count, y) : NULL;
    const float *bias = call->in[LINEAR_BIAS].data;
    if (x && x != y)
        memcpy(y, x, (size_t)count * sizeof(*y));
    for (int64_t i = 0; i < rows && x && bias; i++)
        kernels->add(y + i * out, bias, (size_t)out);
    if (bias && !x)
        kernels->bias_fill(y, bias, rows, out);
    return bias || x ? 1 : 0;
}

static void linear_forward(const struct op_call *call)
{
    const struct op_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t in = x->shape[x->dims - 1], out = y->shape[y->dims - 1], rows = y->count / out;
    int64_t most = y->type == WK_F32 || rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE;
    uint8_t *room = call->scratch;
    struct linear_part parts[LINEAR_PARTS_MAX];
    struct factor weights[LINEAR_PARTS_MAX];
    int n_parts = linear_parts(call, call->in, linear_joins(call, call->in), parts);
    for (int i = 0; i < n_parts; i++)
        weights[i] = weight_factor(call, &parts[i], in, false, &room);
    struct factor values = op_factor(call, x, in, &room);
    for (int64_t r = 0; r < rows; r += most) {
        int64_t n = rows - r < most ? rows - r : most;
        float *tile = tile_target(y, r * out, (float *)room);
        float keep = put_first(call, tile, r, n);
        for (int i = 0; i < n_parts; i++)
            op_product(call, (int64_t[]){n, parts[i].out, in}, factor_at(values, r * in),
                       weights[i], (struct result){tile + parts[i].at, out, keep, NULL});
        tile_store(call->pass->kernels, y, r * out, n * out, tile);
    }
}

static void backward_weights(const struct op_call *call, struct factor dy, int64_t rows,
                             uint8_t **room)
{
    const struct op_tensor *x = &call->in[0];
    struct linear_part parts[LINEAR_PARTS_MAX];
    bool join = linear_joins(call, call->in) && linear_joins(call, call->d_in);
    int n_parts = linear_parts(call, call->d_in, join, parts);
    if (!n_parts)
        return;
    int64_t in = x->shape[x->dims - 1];
    struct factor values = op_factor(call, x, in, room);
    for (int i = 0; i < n_parts; i++) {
        struct factor d = factor_at(dy, parts[i].at);
        struct result weight = {parts[i].weight.data,
                                linear_is_turned(call->node) ? in : parts[i].out,
                                parts[i].weight.add ? 1 : 0, NULL};
        if (linear_is_turned(call->node))
            op_product(call, (int64_t[]){parts[i].out, in, rows}, factor_turned(d), values, weight);
        else
            op_product(call, (int64_t[]){in, parts[i].out, rows}, factor_turned(values), d, weight);
    }
}

static void backward_x(const struct op_call *call, struct factor dy, int64_t rows, uint8_t *room)
{
    const struct op_tensor *dx = &call->d_in[0];
    struct linear_part parts[LINEAR_PARTS_MAX];
    int n_parts = linear_parts(call, call->in, linear_joins(call, call->in), parts);
    int64_t in = dx->shape[dx->dims - 1];
    for (int i = 0; i < n_parts; i++) {
        struct factor weight = weight_factor(call, &parts[i], in, true, &room);
        op_product(call, (int64_t[]){rows, in, parts[i].out}, factor_at(dy, parts[i].at), weight,
                   (struct result){dx->data, in, i > 0 || dx->add ? 1 : 0, NULL});
    }
}

static void linear_backward(const struct op_call *call)
{
    const struct op_tensor *dbias = &call->d_in[LINEAR_BIAS], *d = &call->d_out;
    int64_t out = d->shape[d->dims - 1], rows = d->count / out;
    uint8_t *room = call->scratch;
    struct factor dy = op_factor(call, d, out, &room);
    backward_weights(call, dy, rows, &room);
    tile_zero(call->pass->kernels, dbias);
    if (dbias->data)
        call->pass->kernels->bias_backward(dbias->data, d->data, rows, out);
    if (call->d_in[0].data)
        backward_x(call, dy, rows, room);
}

static size_t scratch_bytes(const struct op_call *call, bool back)
{
    const struct op_tensor *y = &call->out[0];
    size_t bytes = back ? op_factor_bytes(call, &call->d_out) : 0;
    for (int i = 0; i < LINEAR_WEIGHTS + LINEAR_PARTS_MAX; i++)
        bytes += op_factor_input_bytes(call, i, back);
    if (back || y->type == WK_F32)
        return bytes;
    return bytes + ROWS_AT_ONCE * sizeof(float) * (size_t)y->shape[y->dims - 1];
}

static unsigned keeps_of(const struct node *node)
{
    bool trains = false;
    for (int i = 0; i < linear_weights(node); i++)
        trains |= node->in[LINEAR_WEIGHTS + i]->trains;
    return weight_inputs | (trains ? OP_IN(0) : 0);
}

/* A product of all rows with each weight: forward, for its gradient, and for that of x. */
static void linear_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    const struct op_tensor *y = &call->out[0];
    const struct node *node = call->node;
    double rows = (double)(y->count / y->shape[y->dims - 1]), weights = 0;
    for (int i = LINEAR_WEIGHTS; i < LINEAR_WEIGHTS + linear_weights(node); i++) {
        double each = (double)call->in[i].count;
        weights += !back || node->in[0]->trains ? each : 0;
        weights += back && node->in[i]->trains ? each : 0;
    }
    *ret = (struct op_cost){.flop = 2 * rows * weights, .bytes = cost_bytes(call, back)};
}

static const struct op_attribute linear_attributes[] = {
    OP_ATTRIBUTE(struct linear_attributes, turned),
    {0},
};

const struct op_row op_linear = {
    .name = "linear",
    .attributes = linear_attributes,
    .result = RESULT_NARROW,
    .min_in = 2,
    .max_in = LINEAR_RESIDUAL + 1,
    .optional = OP_IN(2) | OP_IN(3) | OP_IN(LINEAR_BIAS) | OP_IN(LINEAR_RESIDUAL),
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_ROWS | OP_CUT_COLUMNS,
    .shape = linear_shape,
    .keeps = OP_IN(0) | OP_IN(1) | OP_IN(2) | OP_IN(3),
    .keeps_of = keeps_of,
    .differentiable =
        OP_IN(0) | OP_IN(1) | OP_IN(2) | OP_IN(3) | OP_IN(LINEAR_BIAS) | OP_IN(LINEAR_RESIDUAL),
    .passes_gradient = OP_IN(LINEAR_RESIDUAL),
    .factors = OP_IN(0) | OP_IN(1) | OP_IN(2) | OP_IN(3),
    .scratch_bytes = scratch_bytes,
    .cost = linear_cost,
    .forward = linear_forward,
    .backward = linear_backward,
};

struct wk_tensor *wk_op_linear(struct wk_tensor *x, const struct wk_linear_weights *weights)
{
    struct linear_attributes attributes = {.turned = weights->turned};
    return graph_add(&(struct node_request){
        .row = &op_linear,
        .attributes = &attributes,
        .attributes_bytes = sizeof(attributes),
        .n_in = LINEAR_BIAS + 1,
        .in = {x, weights->weight[0], weights->weight[1], weights->weight[2], weights->bias},
    });
}
