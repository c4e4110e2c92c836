/* x, or a share of it below 0 (Maas et al. 2013). The result has the sign of x, so it is what
 * backward keeps. NaN stays NaN. */
#include <math.h>

#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/unary.h"

static float slope_of(const struct op_call *call)
{
    const struct leaky_relu_attributes *leaky_relu = call->node->attributes;
    return (float)leaky_relu->slope;
}

static void leaky_relu_tile(const struct op_call *call, float *out, const float *x, int64_t n)
{
    float slope = slope_of(call);
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] < 0 ? slope * x[i] : x[i];
}

static void leaky_relu_slope(const struct op_call *call, const struct unary_slope *s)
{
    float slope = slope_of(call);
    for (int64_t i = 0; i < s->n; i++)
        s->dx[i] = s->kept[i] <= 0 ? slope * s->dout[i] : s->dout[i];
}

static void leaky_relu_forward(const struct op_call *call)
{
    unary_forward(call, leaky_relu_tile);
}

static void leaky_relu_backward(const struct op_call *call)
{
    unary_backward(call, leaky_relu_slope);
}

static void leaky_relu_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, 1, ret);
}

static int leaky_relu_shape(struct op_signature *s, struct error *err)
{
    const struct leaky_relu_attributes *leaky_relu = s->attributes;
    float slope = (float)leaky_relu->slope;
    if (!(slope > 0) || !isfinite(slope))
        return error_set(err, WK_EINVAL, "a slope of %g; it takes a finite f32 above 0",
                         leaky_relu->slope);
    return unary_shape(s, err);
}

static const struct op_attribute leaky_relu_attributes[] = {
    OP_ATTRIBUTE(struct leaky_relu_attributes, slope), {0}};

const struct op_row op_leaky_relu = {
    .name = "leaky_relu",
    .attributes = leaky_relu_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_COLUMNS,
    .shape = leaky_relu_shape,
    .keeps = OP_OUT(0),
    .differentiable = OP_IN(0),
    .in_place = true,
    .cost = leaky_relu_cost,
    .forward = leaky_relu_forward,
    .backward = leaky_relu_backward,
};

struct wk_tensor *wk_op_leaky_relu(struct wk_tensor *x, double slope)
{
    struct leaky_relu_attributes leaky_relu = {slope};
    return graph_add(&(struct node_request){.row = &op_leaky_relu,
                                            .attributes = &leaky_relu,
                                            .attributes_bytes = sizeof(leaky_relu),
                                            .n_in = 1,
                                            .in = {x}});
}
