/* Some elements of one dimension. */
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/move.h"

/* Spans of a slice: `outer` times `span` elements, `apart` in x and from `skip` on. */
struct spans {
    int64_t outer, span, apart, skip;
};

static struct spans spans_of(const struct op_call *call)
{
    const struct slice_attributes *slice = call->node->attributes;
    const struct op_tensor *x = &call->in[0];
    int64_t inner = move_inner(x, slice->dim);
    return (struct spans){.outer = move_outer(x, slice->dim),
                          .span = slice->count * inner,
                          .apart = x->shape[slice->dim] * inner,
                          .skip = slice->first * inner};
}

static void slice_forward(const struct op_call *call)
{
    struct spans s = spans_of(call);
    for (int64_t o = 0; o < s.outer; o++)
        tile_copy(call->pass->kernels, &call->out[0], &call->in[0],
                  (int64_t[]){o * s.span, o * s.apart + s.skip}, s.span);
}

static void slice_backward(const struct op_call *call)
{
    struct spans s = spans_of(call);
    tile_zero(call->pass->kernels, &call->d_in[0]);
    for (int64_t o = 0; call->d_in[0].data && o < s.outer; o++)
        tile_copy(call->pass->kernels, &call->d_in[0], &call->d_out,
                  (int64_t[]){o * s.apart + s.skip, o * s.span}, s.span);
}

static int slice_shape(struct op_signature *s, struct error *err)
{
    const struct slice_attributes *slice = s->attributes;
    const struct wk_tensor *x = s->in[0];
    char text[TENSOR_TEXT_MAX];
    int rc = rule_dimension(s, slice->dim, err);
    if (rc)
        return rc;
    struct dim size = x->shape[slice->dim];
    if (!dim_is_fixed(size))
        return error_set(err, WK_EINVAL, "dimension %d of %s; it takes one of a fixed size",
                         slice->dim, tensor_text(x, text));
    if (slice->first < 0 || slice->count < 1 || slice->count > size.fixed - slice->first)
        return error_set(err, WK_EINVAL, "%lld elements from %lld on of dimension %d of %s",
                         (long long)slice->count, (long long)slice->first, slice->dim,
                         tensor_text(x, text));
    s->out[0] = rule_output(x, 0);
    s->out[0].type = move_type(x);
    s->out[0].shape[slice->dim] = dim_fixed(slice->count);
    return 0;
}

static const struct op_attribute slice_attributes[] = {
    OP_ATTRIBUTE(struct slice_attributes, dim),
    OP_ATTRIBUTE(struct slice_attributes, first),
    OP_ATTRIBUTE(struct slice_attributes, count),
    {0},
};

const struct op_row op_slice = {
    .name = "slice",
    .attributes = slice_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .shape = slice_shape,
    .differentiable = OP_IN(0),
    .cost = move_cost,
    .forward = slice_forward,
    .backward = slice_backward,
};

struct wk_tensor *wk_op_slice(struct wk_tensor *x, int dim, int64_t first, int64_t count)
{
    struct slice_attributes slice = {dim, first, count};
    return graph_add(&(struct node_request){.row = &op_slice,
                                            .attributes = &slice,
                                            .attributes_bytes = sizeof(slice),
                                            .n_in = 1,
                                            .in = {x}});
}
