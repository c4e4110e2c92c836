/* Activations that are a formula of one element. NaN stays NaN; at minus infinity SiLU and GELU are
 * 0, as the table's kernels have it. */
#include <math.h>

#include "libworker/graph/op/unary.h"

static const float SILU_EDGE = 88; /* beyond it the sigmoid is 0 or 1 in float */
static const float GELU_EDGE = 15;
static const float ROOT_HALF = 0.70710678118654752f;
static const float ROOT_TWO_PI_INVERSE = 0.39894228040143268f;

static float within(float x, float edge)
{
    x = x < -edge ? -edge : x;
    return x > edge ? edge : x;
}

static float silu_of(float x)
{
    float v = x < -SILU_EDGE ? -SILU_EDGE : x;
    return v / (1 + expf(-v));
}

static float silu_slope_of(float x)
{
    float v = within(x, SILU_EDGE), s = 1 / (1 + expf(-v));
    return s * (1 + v * (1 - s));
}

/* Of the complement, so that nothing cancels far to the left. */
static float gelu_erf_of(float x)
{
    float v = x < -GELU_EDGE ? -GELU_EDGE : x;
    return 0.5f * v * erfcf(-v * ROOT_HALF);
}

static float gelu_erf_slope_of(float x)
{
    float v = within(x, GELU_EDGE);
    return 0.5f * erfcf(-v * ROOT_HALF) + v * ROOT_TWO_PI_INVERSE * expf(-0.5f * v * v);
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
    (void)call;
    for (int64_t i = 0; i < n; i++)
        out[i] = tanhf(x[i]);
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
    (void)call;
    for (int64_t i = 0; i < n; i++)
        out[i] = 1 / (1 + expf(-x[i]));
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
    (void)call;
    for (int64_t i = 0; i < n; i++)
        out[i] = silu_of(x[i]);
}

static void silu_slope(const struct op_call *call, const struct unary_slope *s)
{
    (void)call;
    for (int64_t i = 0; i < s->n; i++)
        s->dx[i] = s->dout[i] * silu_slope_of(s->kept[i]);
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
    (void)call;
    for (int64_t i = 0; i < n; i++)
        out[i] = gelu_erf_of(x[i]);
}

static void gelu_erf_slope(const struct op_call *call, const struct unary_slope *s)
{
    (void)call;
    for (int64_t i = 0; i < s->n; i++)
        s->dx[i] = s->dout[i] * gelu_erf_slope_of(s->kept[i]);
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
