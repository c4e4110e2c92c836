/* Activations that are a formula of one element, by the table's curves. NaN stays NaN. */
#include "libworker/graph/op/unary.h"
#include "libworker/kernel/curves.h"

static const struct curve_kernels *curves_of(const struct op_call *call)
{
    return call->pass->kernels->curves;
}

static void activation_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, backward ? 8 : 4, ret);
}

#define ACTIVATION                                                                                 \
    .min_in = 1, .max_in = 1, .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_COLUMNS,             \
    .shape = unary_shape, .differentiable = OP_IN(0), .in_place = true, .result = RESULT_LIKE,     \
    .cost = activation_cost

static void relu_tile(const struct op_call *call, float *out, const float *x, int64_t n)
{
    (void)call;
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] < 0 ? 0 : x[i];
}

static void relu_slope(const struct op_call *call, const struct unary_slope *s)
{
    (void)call;
    for (int64_t i = 0; i < s->n; i++)
        s->dx[i] = s->kept[i] <= 0 ? 0 : s->dout[i];
}

static void relu_forward(const struct op_call *call)
{
    unary_forward(call, relu_tile);
}

static void relu_backward(const struct op_call *call)
{
    unary_backward(call, relu_slope);
}

const struct op_row op_relu = {
    .name = "relu",
    ACTIVATION,
    .keeps = OP_OUT(0),
    .forward = relu_forward,
    .backward = relu_backward,
};

struct wk_tensor *wk_op_relu(struct wk_tensor *x)
{
    return unary_add(&op_relu, x);
}

static void tanh_tile(const struct op_call *call, float *out, const float *x, int64_t n)
{
    curves_of(call)->tanh(out, x, (size_t)n);
}

static void tanh_slope(const struct op_call *call, const struct unary_slope *s)
{
    (void)call;
    for (int64_t i = 0; i < s->n; i++)
        s->dx[i] = s->dout[i] * (1 - s->kept[i] * s->kept[i]);
}

static void tanh_forward(const struct op_call *call)
{
    unary_forward(call, tanh_tile);
}

static void tanh_backward(const struct op_call *call)
{
    unary_backward(call, tanh_slope);
}

const struct op_row op_tanh = {
    .name = "tanh",
    ACTIVATION,
    .keeps = OP_OUT(0),
    .forward = tanh_forward,
    .backward = tanh_backward,
};

struct wk_tensor *wk_op_tanh(struct wk_tensor *x)
{
    return unary_add(&op_tanh, x);
}

static void sigmoid_tile(const struct op_call *call, float *out, const float *x, int64_t n)
{
    curves_of(call)->sigmoid(out, x, (size_t)n);
}

static void sigmoid_slope(const struct op_call *call, const struct unary_slope *s)
{
    (void)call;
    for (int64_t i = 0; i < s->n; i++)
        s->dx[i] = s->dout[i] * s->kept[i] * (1 - s->kept[i]);
}

static void sigmoid_forward(const struct op_call *call)
{
    unary_forward(call, sigmoid_tile);
}

static void sigmoid_backward(const struct op_call *call)
{
    unary_backward(call, sigmoid_slope);
}

const struct op_row op_sigmoid = {
    .name = "sigmoid",
    ACTIVATION,
    .keeps = OP_OUT(0),
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
};

struct wk_tensor *wk_op_sigmoid(struct wk_tensor *x)
{
    return unary_add(&op_sigmoid, x);
}

static void silu_tile(const struct op_call *call, float *out, const float *x, int64_t n)
{
    curves_of(call)->silu(out, x, (size_t)n);
}

static void silu_slope(const struct op_call *call, const struct unary_slope *s)
{
    curves_of(call)->silu_slope(s->dx, s->kept, s->dout, (size_t)s->n);
}

static void silu_forward(const struct op_call *call)
{
    unary_forward(call, silu_tile);
}

static void silu_backward(const struct op_call *call)
{
    unary_backward(call, silu_slope);
}

const struct op_row op_silu = {
    .name = "silu",
    ACTIVATION,
    .keeps = OP_IN(0),
    .forward = silu_forward,
    .backward = silu_backward,
};

struct wk_tensor *wk_op_silu(struct wk_tensor *x)
{
    return unary_add(&op_silu, x);
}

static void gelu_erf_tile(const struct op_call *call, float *out, const float *x, int64_t n)
{
    curves_of(call)->gelu_erf(out, x, (size_t)n);
}

static void gelu_erf_slope(const struct op_call *call, const struct unary_slope *s)
{
    curves_of(call)->gelu_erf_slope(s->dx, s->kept, s->dout, (size_t)s->n);
}

static void gelu_erf_forward(const struct op_call *call)
{
    unary_forward(call, gelu_erf_tile);
}

static void gelu_erf_backward(const struct op_call *call)
{
    unary_backward(call, gelu_erf_slope);
}

const struct op_row op_gelu_erf = {
    .name = "gelu_erf",
    ACTIVATION,
    .keeps = OP_IN(0),
    .forward = gelu_erf_forward,
    .backward = gelu_erf_backward,
};

struct wk_tensor *wk_op_gelu_erf(struct wk_tensor *x)
{
    return unary_add(&op_gelu_erf, x);
}
