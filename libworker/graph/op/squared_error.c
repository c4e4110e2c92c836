/* (x - target)^2 of each element. */
#include "libworker/graph/op/pair.h"

static void loss_tile(const struct pair *p)
{
    for (int64_t i = 0; i < p->n; i++)
        p->out[i] = (p->x[i] - p->target[i]) * (p->x[i] - p->target[i]);
}

static void x_slope(const struct pair *p)
{
    for (int64_t i = 0; i < p->n; i++)
        p->out[i] = 2 * p->dout[i] * (p->x[i] - p->target[i]);
}

static void target_slope(const struct pair *p)
{
    for (int64_t i = 0; i < p->n; i++)
        p->out[i] = 2 * p->dout[i] * (p->target[i] - p->x[i]);
}

static void squared_error_forward(const struct op_call *call)
{
    pair_each(call, &call->out[0], loss_tile);
}

static void squared_error_backward(const struct op_call *call)
{
    pair_backward(call, x_slope, target_slope);
}

static void squared_error_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, 3, ret);
}

const struct op_row op_squared_error = {
    .name = "squared_error",
    PAIR_ROW,
    .cost = squared_error_cost,
    .forward = squared_error_forward,
    .backward = squared_error_backward,
};

struct wk_tensor *wk_op_squared_error(struct wk_tensor *x, struct wk_tensor *target)
{
    return pair_add(&op_squared_error, x, target);
}
