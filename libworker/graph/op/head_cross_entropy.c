/* losses[…] of logits = x[…, width] table[classes, width]^T against targets[…]. The probabilities
 * are kept. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/entropy.h"
#include "libworker/graph/op/factor.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { X, TABLE, TARGETS, PROBS = 1 };
enum { ROWS_AT_ONCE = 512 }; /* the logits' gradients that are in memory */

static int head_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX], wanted[TENSOR_TEXT_MAX];
    const struct wk_tensor *x = s->in[X], *table = s->in[TABLE];
    int rc = rule_dims(s, X, (int[]){1, WK_TENSOR_DIMS_MAX}, err);
    if (!rc)
        rc = rule_dims(s, TABLE, (int[]){2, 2}, err);
    if (rc)
        return rc;
    if (!rule_is_value(x) || !rule_is_value(table) || !dim_is_fixed(table->shape[0]) ||
        !dim_equal(table->shape[1], rule_last(x)))
        return error_set(err, WK_EINVAL,
                         "x is %s and the table %s; it takes x[…, width] and "
                         "table[classes, width] of f32",
                         tensor_text(x, text), tensor_text(table, wanted));
    s->n_out = 2;
    s->out[0] = rule_output(x, 1);
    s->out[PROBS] = rule_output(x, 0);
    s->out[PROBS].shape[x->dims - 1] = table->shape[0];
    return entropy_shape(s, table->shape[0].fixed, err);
}

static int64_t classes_of(const struct node *node)
{
    return node->in[TABLE]->shape[0].fixed;
}

static void head_forward(const struct op_call *call)
{
    int64_t classes = classes_of(call->node), rows = call->out[0].count;
    int64_t width = call->in[TABLE].shape[1];
    float *probs = call->out[PROBS].data;
    uint8_t *room = call->scratch;
    struct factor x = op_factor(call, &call->in[X], width, &room);
    struct factor table = op_factor(call, &call->in[TABLE], width, &room);
    op_product(call, (int64_t[]){rows, classes, width}, x, factor_turned(table),
               (struct result){probs, classes, 0, NULL});
    struct entropy entropy = entropy_of(call, classes);
    for (int64_t r = 0; r < rows; r++)
        entropy_forward(&entropy, &call->out[0], probs + r * classes, r);
}

/* The gradients of the logits of rows [first, first + n) as a factor. `room` is not moved. */
static struct factor logits_gradient(const struct op_call *call, int64_t first, int64_t n,
                                     uint8_t *room)
{
    int64_t classes = classes_of(call->node);
    struct entropy entropy = entropy_of(call, classes);
    const float *probs = (const float *)call->out[PROBS].data + first * classes;
    bool is_float = call->compute == WK_F32;
    void *all = room_take(&room, n * classes, wk_dtype_bytes(call->compute));
    float *tile = room_take(&room, classes, sizeof(*tile));
    for (int64_t r = 0; r < n; r++) {
        float *d = is_float ? (float *)all + r * classes : tile;
        entropy_backward(&entropy, d, probs + r * classes, first + r);
        if (!is_float)
            entropy.kernels->narrow((uint16_t *)all + r * classes, call->compute, d,
                                    (size_t)classes);
    }
    return (struct factor){
        .data = is_float ? all : NULL, .stride = classes, .low = is_float ? NULL : all};
}

static void head_backward(const struct op_call *call)
{
    const struct op_tensor *dx = &call->d_in[X], *dtable = &call->d_in[TABLE];
    int64_t classes = classes_of(call->node), rows = call->d_out.count;
    int64_t width = call->in[TABLE].shape[1];
    uint8_t *room = call->scratch;
    struct factor x = {0}, table = {0};
    if (dtable->data)
        x = op_factor(call, &call->in[X], width, &room);
    if (dx->data)
        table = op_factor(call, &call->in[TABLE], width, &room);
    tile_zero(call->pass->kernels, dtable);
    for (int64_t r = 0; r < rows; r += ROWS_AT_ONCE) {
        int64_t n = rows - r < ROWS_AT_ONCE ? rows - r : ROWS_AT_ONCE;
        struct factor d = logits_gradient(call, r, n, room);
        if (dtable->data)
            op_product(call, (int64_t[]){classes, width, n}, factor_turned(d),
                       factor_at(x, r * width), (struct result){dtable->data, width, 1, NULL});
        if (dx->data)
            op_product(
                call, (int64_t[]){n, width, classes}, d, table,
                (struct result){(float *)dx->data + r * width, width, dx->add ? 1 : 0, NULL});
    }
}

static size_t scratch_bytes(const struct op_call *call, bool back)
{
    size_t classes = (size_t)classes_of(call->node), rows = (size_t)call->out[0].count;
    size_t bytes = op_factor_input_bytes(call, X, back) + op_factor_input_bytes(call, TABLE, back);
    rows = rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE;
    if (!back)
        return bytes;
    return bytes + room_rounded(rows * classes * wk_dtype_bytes(call->compute)) +
           room_rounded(classes * sizeof(float));
}

static unsigned head_keeps(const struct node *node)
{
    return op_product_keeps(node, X, TABLE) | OP_IN(TARGETS) | OP_OUT(PROBS);
}

static void head_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    const struct node *node = call->node;
    double logits = (double)call->out[PROBS].count, width = (double)call->in[TABLE].shape[1];
    double products = back ? 0 : 1;
    for (int i = X; i <= TABLE && back; i++)
        products += node->in[i]->trains ? 1 : 0;
    *ret = (struct op_cost){.flop = logits * (2 * width * products + (back ? 2 : 5)),
                            .bytes = cost_bytes(call, back)};
}

static const struct op_attribute head_cross_entropy_attributes[] = {
    OP_ATTRIBUTE(struct entropy_attributes, smoothing),
    OP_ATTRIBUTE(struct entropy_attributes, class_weights),
    {0},
};

const struct op_row op_head_cross_entropy = {
    .name = "head_cross_entropy",
    .attributes = head_cross_entropy_attributes,
    .min_in = 3,
    .max_in = 3,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .shape = head_shape,
    .keeps = OP_IN(X) | OP_IN(TABLE) | OP_IN(TARGETS) | OP_OUT(PROBS),
    .keeps_of = head_keeps,
    .differentiable = OP_IN(X) | OP_IN(TABLE),
    .index_input = 1 + TARGETS,
    .index_ignores = true,
    .index_bound = classes_of,
    .factors = OP_IN(X) | OP_IN(TABLE),
    .scratch_bytes = scratch_bytes,
    .cost = head_cost,
    .forward = head_forward,
    .backward = head_backward,
};

struct wk_tensor *wk_op_head_cross_entropy(struct wk_tensor *x, struct wk_tensor *table,
                                           struct wk_tensor *targets,
                                           const struct wk_cross_entropy_options *options)
{
    struct entropy_attributes attributes = entropy_attributes_of(options, table, 0);
    return graph_add(&(struct node_request){.row = &op_head_cross_entropy,
                                            .attributes = &attributes,
                                            .attributes_bytes = sizeof(attributes),
                                            .n_in = 3,
                                            .in = {x, table, targets}});
}
