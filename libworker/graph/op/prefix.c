/* The first rows of a parameter, as many as a sample is long: a view, so that the gradient is added
 * to the parameter's own. */
#include <worker/error.h>

#include "libworker/graph/op/rule.h"

static int prefix_shape(struct op_signature *s, struct error *err)
{
    const struct wk_tensor *param = s->in[0];
    char text[TENSOR_TEXT_MAX];
    if (param->kind != TENSOR_PARAM || param->dims < 1)
        return error_set(err, WK_EINVAL, "%s is not a parameter: use wk_op_slice",
                         tensor_text(param, text));
    s->out[0] = *param;
    s->out[0].shape[0] = dim_of(WK_LENGTH);
    return 0;
}

const struct op_row op_prefix = {
    .name = "prefix",
    .min_in = 1,
    .max_in = 1,
    .shape = prefix_shape,
    .differentiable = OP_IN(0),
    .decode_refusal = rule_decodes,
    .view = true,
};

struct wk_tensor *wk_op_prefix(struct wk_tensor *param)
{
    struct node_request request = {.row = &op_prefix, .n_in = 1, .in = {param}};
    struct wk_tensor *prefix = graph_add(&request);
    if (prefix)
        graph_limit_length(prefix->graph, param->shape[0].fixed);
    return prefix;
}
