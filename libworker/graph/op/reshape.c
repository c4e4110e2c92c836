/* The same elements in another shape. A view: no kernel. */
#include <stdio.h>

#include "libworker/graph/op/rule.h"

struct reshape {
    struct wk_shape shape;
};

static struct dim product_of(const struct wk_tensor *x)
{
    struct dim product = dim_fixed(1);
    for (int i = 0; i < x->dims; i++)
        product = dim_times(product, x->shape[i]);
    return product;
}

/* What the shape leaves for its WK_REST; fixed 0 if it does not divide x. */
static struct dim rest_of(const struct wk_tensor *x, const struct wk_shape *shape)
{
    struct dim rest = product_of(x);
    for (int i = 0; i < shape->dims && rest.fixed; i++) {
        if (shape->size[i] != WK_REST)
            rest = dim_over(rest, dim_of(shape->size[i]));
    }
    return rest;
}

/* "[samples, rest, 8]" of a shape as the caller gave it. */
static const char *wanted_text(const struct wk_shape *shape, char ret[TENSOR_TEXT_MAX])
{
    size_t used = (size_t)snprintf(ret, TENSOR_TEXT_MAX, "[");
    for (int i = 0; i < shape->dims && used < TENSOR_TEXT_MAX; i++) {
        char text[DIM_TEXT_MAX] = "rest";
        if (shape->size[i] != WK_REST)
            dim_text(dim_of(shape->size[i]), text);
        used += (size_t)snprintf(ret + used, TENSOR_TEXT_MAX - used, "%s%s", i ? ", " : "", text);
    }
    if (used < TENSOR_TEXT_MAX)
        snprintf(ret + used, TENSOR_TEXT_MAX - used, "]");
    return ret;
}

static int count_rests(const struct wk_shape *shape)
{
    int rests = 0;
    for (int i = 0; i < shape->dims; i++) {
        if (shape->size[i] == WK_REST)
            rests++;
    }
    return rests;
}

/* Sizes are positive or codes, of which WK_REST is there once at most. */
static int check_sizes(const struct wk_shape *shape, struct error *err)
{
    if (shape->dims < 0 || shape->dims > WK_TENSOR_DIMS_MAX)
        return error_set(err, WK_EINVAL, "a shape of %d dimensions; it takes at most %d",
                         shape->dims, WK_TENSOR_DIMS_MAX);
    for (int i = 0; i < shape->dims; i++) {
        int64_t size = shape->size[i];
        if (size < 1 && size != WK_REST && size != WK_SAMPLES && size != WK_LENGTH &&
            size != WK_RANKS)
            return error_set(err, WK_EINVAL, "dimension %d of the new shape is %lld", i,
                             (long long)size);
    }
    if (count_rests(shape) > 1)
        return error_set(err, WK_EINVAL, "%d dimensions are WK_REST; it takes one",
                         count_rests(shape));
    return 0;
}

static int reshape_shape(struct op_signature *s, struct error *err)
{
    const struct reshape *reshape = s->attributes;
    const struct wk_shape *shape = &reshape->shape;
    const struct wk_tensor *x = s->in[0];
    char from[TENSOR_TEXT_MAX], to[TENSOR_TEXT_MAX];
    int rc = check_sizes(shape, err);
    if (rc)
        return rc;
    struct dim rest = rest_of(x, shape);
    if (!rest.fixed || (!count_rests(shape) && !dim_is_one(rest)))
        return error_set(err, WK_EINVAL, "%s does not become %s; both have the same elements",
                         tensor_text(x, from), wanted_text(shape, to));
    s->out[0].type = x->type;
    s->out[0].dims = shape->dims;
    for (int i = 0; i < shape->dims; i++)
        s->out[0].shape[i] = shape->size[i] == WK_REST ? rest : dim_of(shape->size[i]);
    return 0;
}

static bool has_length(const struct wk_tensor *x)
{
    bool has = false;
    for (int i = 0; i < x->dims; i++)
        has |= x->shape[i].length;
    return has;
}

/* The elements of a position stay together if the first two dimensions do. */
static const char *reshape_decode_refusal(const struct node *node)
{
    const struct wk_tensor *from = node->in[0], *to = node->out[0];
    if (!has_length(from))
        return NULL;
    bool stays = from->dims > 1 && to->dims > 1 && dim_equal(from->shape[0], to->shape[0]) &&
                 dim_equal(from->shape[1], to->shape[1]);
    return stays ? NULL : "it does not keep the first two dimensions";
}

static const struct op_attribute reshape_attributes[] = {
    OP_ATTRIBUTE(struct reshape, shape.dims),
    {0},
};

const struct op_row op_reshape = {
    .name = "reshape",
    .attributes = reshape_attributes,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES,
    .shape = reshape_shape,
    .differentiable = OP_IN(0),
    .passes_gradient = OP_IN(0),
    .decode_refusal = reshape_decode_refusal,
    .view = true,
};

struct wk_tensor *wk_op_reshape(struct wk_tensor *x, struct wk_shape shape)
{
    struct reshape reshape = {shape};
    return graph_add(&(struct node_request){.row = &op_reshape,
                                            .attributes = &reshape,
                                            .attributes_bytes = sizeof(reshape),
                                            .n_in = 1,
                                            .in = {x}});
}
