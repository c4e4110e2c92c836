/* The last `window` positions of each position side by side, the oldest first; zeros before the
 * sample (Bengio et al. 2003). */
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

static int64_t positions_of(const struct op_call *call)
{
    return ((const struct window_attributes *)call->node->attributes)->positions;
}

static void window_forward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t length = x->shape[1], width = x->shape[2], window = positions_of(call);
    size_t zeros = (size_t)width * wk_dtype_bytes(y->type);
    for (int64_t r = 0; r < x->shape[0] * length; r++) {
        for (int64_t w = 0; w < window; w++) {
            int64_t back = window - 1 - w, to = (r * window + w) * width;
            if (r % length < back)
                memset(tensor_at(y, to), 0, zeros);
            else
                tile_copy(k, y, x, (int64_t[]){to, (r - back) * width}, width);
        }
    }
}

static void window_backward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *dx = &call->d_in[0];
    const float *dy = call->d_out.data;
    float *to = dx->data;
    if (!to)
        return;
    int64_t length = dx->shape[1], width = dx->shape[2], window = positions_of(call);
    if (!dx->add)
        k->fill(to, 0, (size_t)dx->count);
    for (int64_t r = 0; r < dx->shape[0] * length; r++) {
        for (int64_t w = 0; w < window; w++) {
            int64_t back = window - 1 - w;
            if (r % length >= back)
                k->add(to + (r - back) * width, dy + (r * window + w) * width, (size_t)width);
        }
    }
}

static int window_shape(struct op_signature *s, struct error *err)
{
    enum { WINDOW_MAX = 1024 };
    const struct window_attributes *window = s->attributes;
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, 0, (int[]){3, 3}, err);
    if (rc)
        return rc;
    if (window->positions < 1 || window->positions > WINDOW_MAX)
        return error_set(err, WK_EINVAL, "a window of %lld positions; it takes 1 to %d",
                         (long long)window->positions, WINDOW_MAX);
    rc = rule_as(s, 0);
    s->out[0].shape[2] = dim_times(s->in[0]->shape[2], dim_fixed(window->positions));
    return rc;
}

static void window_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, backward ? 1 : 0, ret);
}

static const struct op_attribute window_attributes[] = {
    OP_ATTRIBUTE(struct window_attributes, positions),
    {0},
};

const struct op_row op_window = {
    .name = "window",
    .attributes = window_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_COLUMNS,
    .shape = window_shape,
    .differentiable = OP_IN(0),
    .cost = window_cost,
    .forward = window_forward,
    .backward = window_backward,
};

struct wk_tensor *wk_op_window(struct wk_tensor *x, int64_t positions)
{
    struct window_attributes window = {positions};
    return graph_add(&(struct node_request){.row = &op_window,
                                            .attributes = &window,
                                            .attributes_bytes = sizeof(window),
                                            .n_in = 1,
                                            .in = {x}});
}
