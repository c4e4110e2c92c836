/* Tensors side by side along one dimension. */
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/move.h"

/* Copy each part to its place in the result, or each part's gradient from there. */
static void concat_each(const struct op_call *call, bool backward)
{
    const struct concat_attributes *concat = call->node->attributes;
    int64_t outer = move_outer(&call->out[0], concat->dim);
    int64_t inner = move_inner(&call->out[0], concat->dim);
    int64_t apart = call->out[0].shape[concat->dim] * inner, skip = 0;
    for (int i = 0; i < call->node->n_in; i++) {
        const struct op_tensor *part = backward ? &call->d_in[i] : &call->in[i];
        int64_t span = call->in[i].shape[concat->dim] * inner;
        for (int64_t o = 0; part->data && o < outer; o++) {
            if (backward)
                tile_copy(call->pass->kernels, part, &call->d_out,
                          (int64_t[]){o * span, o * apart + skip}, span);
            else
                tile_copy(call->pass->kernels, &call->out[0], part,
                          (int64_t[]){o * apart + skip, o * span}, span);
        }
        skip += span;
    }
}

static void concat_forward(const struct op_call *call)
{
    concat_each(call, false);
}

static void concat_backward(const struct op_call *call)
{
    concat_each(call, true);
}

/* Part i is as the first but for the size along the dimension. */
static int part_check(const struct op_signature *s, int i, int dim, struct error *err)
{
    const struct wk_tensor *first = s->in[0], *part = s->in[i];
    char a[TENSOR_TEXT_MAX], b[TENSOR_TEXT_MAX];
    bool fits = part->dims == first->dims && move_type(part) == move_type(first);
    for (int d = 0; fits && d < part->dims; d++)
        fits = d == dim ? dim_is_fixed(part->shape[d]) : dim_equal(part->shape[d], first->shape[d]);
    if (fits)
        return 0;
    return error_set(err, WK_EINVAL,
                     "%s and %s along dimension %d; all others are equal, and that one is fixed",
                     tensor_text(first, a), tensor_text(part, b), dim);
}

static int concat_shape(struct op_signature *s, struct error *err)
{
    const struct concat_attributes *concat = s->attributes;
    struct dim sum = {0};
    int rc = rule_dimension(s, concat->dim, err);
    for (int i = 0; i < s->n_in && !rc; i++) {
        rc = part_check(s, i, concat->dim, err);
        if (!rc)
            sum.fixed += s->in[i]->shape[concat->dim].fixed;
    }
    if (rc)
        return rc;
    s->out[0] = rule_output(s->in[0], 0);
    s->out[0].type = move_type(s->in[0]);
    s->out[0].shape[concat->dim] = sum;
    return 0;
}

static const struct op_attribute concat_attributes[] = {
    OP_ATTRIBUTE(struct concat_attributes, dim),
    {0},
};

const struct op_row op_concat = {
    .name = "concat",
    .attributes = concat_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = NODE_INPUTS_MAX,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .shape = concat_shape,
    .differentiable = OP_IN(NODE_INPUTS_MAX) - 1,
    .cost = move_cost,
    .forward = concat_forward,
    .backward = concat_backward,
};

struct wk_tensor *wk_op_concat(struct wk_tensor *const *parts, int n, int dim)
{
    struct concat_attributes concat = {dim};
    struct node_request request = {
        .row = &op_concat, .attributes = &concat, .attributes_bytes = sizeof(concat), .n_in = n};
    int read = n > NODE_INPUTS_MAX ? 1 : n; /* too many are refused by the graph of the first */
    for (int i = 0; i < read; i++)
        request.in[i] = parts[i];
    return graph_add(&request);
}
