/* The same value; no gradient passes. A view: no kernel. */
#include "libworker/graph/op/rule.h"

static int stop_gradient_shape(struct op_signature *s, struct error *err)
{
    (void)err;
    rule_as(s, 0);
    s->out[0].type = s->in[0]->type;
    return 0;
}

const struct op_row op_stop_gradient = {
    .name = "stop_gradient",
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_COLUMNS,
    .shape = stop_gradient_shape,
    .view = true,
};

struct wk_tensor *wk_op_stop_gradient(struct wk_tensor *x)
{
    return graph_add(&(struct node_request){.row = &op_stop_gradient, .n_in = 1, .in = {x}});
}
