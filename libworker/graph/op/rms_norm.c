/* RMS norm over the last dimension (Zhang and Sennrich 2019): no mean, no bias. */
#include "libworker/graph/op/norm.h"

static const struct op_attribute rms_norm_attributes[] = {
    OP_ATTRIBUTE(struct norm_attributes, epsilon),
    OP_ATTRIBUTE(struct norm_attributes, mean),
    {0},
};

const struct op_row op_rms_norm = {
    .name = "rms_norm",
    .attributes = rms_norm_attributes,
    .min_in = 2,
    .max_in = 2,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .shape = norm_shape,
    .keeps = OP_IN(0) | OP_IN(1) | OP_OUT(1),
    .keeps_of = norm_keeps,
    .differentiable = OP_IN(0) | OP_IN(1),
    .after_add = true,
    .scratch_bytes = norm_scratch,
    .cost = norm_cost,
    .forward = norm_over_rows,
    .backward = norm_over_rows_back,
};

struct wk_tensor *wk_op_rms_norm(struct wk_tensor *x, struct wk_tensor *weight, double epsilon)
{
    struct norm_attributes attributes = {.epsilon = (float)epsilon};
    return graph_add(&(struct node_request){.row = &op_rms_norm,
                                            .attributes = &attributes,
                                            .attributes_bytes = sizeof(attributes),
                                            .n_in = 2,
                                            .in = {x, weight}});
}
