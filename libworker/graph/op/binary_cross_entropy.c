/* Binary cross-entropy of logits by the table's curves, in a form where no power overflows. */
#include "libworker/graph/op/pair.h"
#include "libworker/kernel/curves.h"

/* -target log s(x) - (1 - target) log s(-x). The loss may be written over x. */
static void loss_tile(const struct pair *p)
{
    float rest[TILE_MAX];
    p->kernels->curves->softplus_rest(rest, p->x, (size_t)p->n);
    for (int64_t i = 0; i < p->n; i++) {
        float x = p->x[i];
        p->out[i] = (x > 0 ? x : 0) - x * p->target[i] + rest[i];
    }
}

static void x_slope(const struct pair *p)
{
    float share[TILE_MAX];
    p->kernels->curves->sigmoid(share, p->x, (size_t)p->n);
    for (int64_t i = 0; i < p->n; i++)
        p->out[i] = p->dout[i] * (share[i] - p->target[i]);
}

/* The target may be missing. */
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
    struct op_call alone = *call;
    pair_each(call, &call->d_in[0], x_slope);
    alone.in[1] = call->in[0];
    pair_each(&alone, &call->d_in[1], target_slope);
}

/* x for each gradient, the target for that of x. */
static unsigned binary_cross_entropy_keeps(const struct node *node)
{
    return OP_IN(0) | (node->in[0]->trains ? OP_IN(1) : 0);
}

static void binary_cross_entropy_cost(const struct op_call *call, bool backward,
                                      struct op_cost *ret)
{
    cost_elements(call, backward, 6, ret);
}

const struct op_row op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    PAIR_ROW,
    .keeps_of = binary_cross_entropy_keeps,
    .cost = binary_cross_entropy_cost,
    .forward = binary_cross_entropy_forward,
    .backward = binary_cross_entropy_backward,
};

struct wk_tensor *wk_op_binary_cross_entropy(struct wk_tensor *x, struct wk_tensor *target)
{
    return pair_add(&op_binary_cross_entropy, x, target);
}
