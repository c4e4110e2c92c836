/* GELU by the tanh formula (Hendrycks and Gimpel 2016), by the table's kernels. */
#include "libworker/graph/op/unary.h"

static void gelu_tile(const struct op_call *call, float *out, const float *x, int64_t n)
{
    call->pass->kernels->gelu_forward(out, x, (size_t)n);
}

static void gelu_slope(const struct op_call *call, const struct unary_slope *s)
{
    call->pass->kernels->gelu_backward(s->dx, s->kept, s->dout, (size_t)s->n);
}

static void gelu_forward(const struct op_call *call)
{
    unary_forward(call, gelu_tile);
}

static void gelu_backward(const struct op_call *call)
{
    unary_backward(call, gelu_slope);
}

static void gelu_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, backward ? 16 : 10, ret);
}

const struct op_row op_gelu = {
    .name = "gelu",
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_COLUMNS,
    .shape = unary_shape,
    .keeps = OP_IN(0),
    .differentiable = OP_IN(0),
    .cost = gelu_cost,
    .forward = gelu_forward,
    .backward = gelu_backward,
};

struct wk_tensor *wk_op_gelu(struct wk_tensor *x)
{
    return unary_add(&op_gelu, x);
}
