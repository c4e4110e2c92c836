/* x times a number. */
#include <math.h>

#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/unary.h"

static float factor_of(const struct op_call *call)
{
    const struct scale_attributes *scale = call->node->attributes;
    return (float)scale->factor;
}

static void scale_tile(const struct op_call *call, float *out, const float *x, int64_t n)
{
    float factor = factor_of(call);
    for (int64_t i = 0; i < n; i++)
        out[i] = factor * x[i];
}

static void scale_slope(const struct op_call *call, const struct unary_slope *s)
{
    scale_tile(call, s->dx, s->dout, s->n);
}

static void scale_forward(const struct op_call *call)
{
    unary_forward(call, scale_tile);
}

static void scale_backward(const struct op_call *call)
{
    unary_backward(call, scale_slope);
}

static void scale_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, 1, ret);
}

static int scale_shape(struct op_signature *s, struct error *err)
{
    const struct scale_attributes *scale = s->attributes;
    if (!isfinite((float)scale->factor))
        return error_set(err, WK_EINVAL, "a factor of %g; it takes a finite f32", scale->factor);
    return unary_shape(s, err);
}

static const struct op_attribute scale_attributes[] = {
    OP_ATTRIBUTE(struct scale_attributes, factor),
    {0},
};

const struct op_row op_scale = {
    .name = "scale",
    .attributes = scale_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_COLUMNS,
    .shape = scale_shape,
    .differentiable = OP_IN(0),
    .in_place = true,
    .cost = scale_cost,
    .forward = scale_forward,
    .backward = scale_backward,
};

struct wk_tensor *wk_op_scale(struct wk_tensor *x, double factor)
{
    struct scale_attributes scale = {factor};
    return graph_add(&(struct node_request){.row = &op_scale,
                                            .attributes = &scale,
                                            .attributes_bytes = sizeof(scale),
                                            .n_in = 1,
                                            .in = {x}});
}
