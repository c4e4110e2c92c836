/* Softmax over the last dimension, by the table's kernels: a row is the last one of a causal mask,
 * which sees all of its columns. */
#include "libworker/graph/op/axis.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

static struct kernel_causal row_of(int64_t width)
{
    return (struct kernel_causal){
        .first = width - 1, .rows = 1, .cols = width, .ld = width, .scale = 1};
}

static int64_t width_of(const struct op_call *call)
{
    return call->out[0].shape[call->out[0].dims - 1];
}

/* A row of the result, and one of the gradient. */
static size_t softmax_scratch(const struct op_call *call, bool backward)
{
    (void)backward;
    return 2 * (size_t)width_of(call) * sizeof(float);
}

static void softmax_forward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    int64_t width = width_of(call);
    struct kernel_causal row = row_of(width);
    float *x_room = call->scratch, *y_room = x_room + width;
    for (int64_t at = 0; at < call->out[0].count; at += width) {
        const float *x = tile_read(k, &call->in[0], at, width, x_room);
        float *y = tile_target(&call->out[0], at, y_room);
        if (y != x)
            memcpy(y, x, (size_t)width * sizeof(*y));
        k->softmax_causal(&row, y);
        tile_store(k, &call->out[0], at, width, y);
    }
}

static void softmax_backward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *dx = &call->d_in[0];
    int64_t width = width_of(call);
    struct kernel_causal row = row_of(width);
    float *y_room = call->scratch, *dx_room = y_room + width;
    for (int64_t at = 0; dx->data && at < dx->count; at += width) {
        const float *y = tile_read(k, &call->out[0], at, width, y_room);
        float *d = tile_target(dx, at, dx_room);
        memcpy(d, (const float *)call->d_out.data + at, (size_t)width * sizeof(*d));
        k->softmax_causal_backward(&row, d, y);
        tile_store(k, dx, at, width, d);
    }
}

static void softmax_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, 4, ret);
}

static int softmax_shape(struct op_signature *s, struct error *err)
{
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, 0, (int[]){1, WK_TENSOR_DIMS_MAX}, err);
    if (!rc)
        rc = rule_not_samples(s, s->in[0]->dims - 1, err);
    if (rc)
        return rc;
    return rule_as(s, 0);
}

static const char *softmax_decode_refusal(const struct node *node)
{
    return rule_last(node->in[0]).length ? "the sum is over positions" : NULL;
}

const struct op_row op_softmax = {
    .name = "softmax",
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES,
    .shape = softmax_shape,
    .keeps = OP_OUT(0),
    .differentiable = OP_IN(0),
    .decode_refusal = softmax_decode_refusal,
    .in_place = true,
    .scratch_bytes = softmax_scratch,
    .cost = softmax_cost,
    .forward = softmax_forward,
    .backward = softmax_backward,
};

struct wk_tensor *wk_op_softmax(struct wk_tensor *x)
{
    return graph_add(&(struct node_request){.row = &op_softmax, .n_in = 1, .in = {x}});
}
