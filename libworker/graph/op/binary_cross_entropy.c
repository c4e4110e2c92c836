/* Binary cross-entropy of logits, in the form in which no power overflows. */
#include <math.h>

#include "libworker/graph/op/pair.h"

/* -target log s(x) - (1 - target) log s(-x). */
static float loss_of(float x, float target)
{
    return (x > 0 ? x : 0) - x * target + log1pf(expf(-fabsf(x)));
}

/* s(x), from the power that is at most 1. */
static float sigmoid_of(float x)
{
    float fall = expf(-fabsf(x));
    return (x < 0 ? fall : 1) / (1 + fall);
}

static void loss_tile(const struct pair *p)
{
    for (int64_t i = 0; i < p->n; i++)
        p->out[i] = loss_of(p->x[i], p->target[i]);
}

static void x_slope(const struct pair *p)
{
    for (int64_t i = 0; i < p->n; i++)
        p->out[i] = p->dout[i] * (sigmoid_of(p->x[i]) - p->target[i]);
}

static void target_slope(const struct pair *p)
{
    for (int64_t i = 0; i < p->n; i++)
        p->out[i] = -p->dout[i] * p->x[i];
}

static void binary_cross_entropy_forward(const struct op_call *call)
{
    pair_each(call, &call->out[0], loss_tile);
}

static void binary_cross_entropy_backward(const struct op_call *call)
{
    pair_backward(call, x_slope, target_slope);
}

static void binary_cross_entropy_cost(const struct op_call *call, bool backward,
                                      struct op_cost *ret)
{
    cost_elements(call, backward, 6, ret);
}

const struct op_row op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    PAIR_ROW,
    .cost = binary_cross_entropy_cost,
    .forward = binary_cross_entropy_forward,
    .backward = binary_cross_entropy_backward,
};

struct wk_tensor *wk_op_binary_cross_entropy(struct wk_tensor *x, struct wk_tensor *target)
{
    return pair_add(&op_binary_cross_entropy, x, target);
}
