/* Layer norm over the last dimension (Ba et al. 2016), with or without a bias. */
#include "libworker/graph/op/norm.h"

static const struct op_attribute layer_norm_attributes[] = {
    OP_ATTRIBUTE(struct norm_attributes, epsilon),
    OP_ATTRIBUTE(struct norm_attributes, mean),
    {0},
};

const struct op_row op_layer_norm = {
    .name = "layer_norm",
    .attributes = layer_norm_attributes,
    .min_in = 2,
    .max_in = 3,
    .optional = OP_IN(2),
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .shape = norm_shape,
    .keeps = OP_IN(0) | OP_IN(1) | OP_OUT(1) | OP_OUT(2),
    .keeps_of = norm_keeps,
    .differentiable = OP_IN(0) | OP_IN(1) | OP_IN(2),
    .after_add = true,
    .scratch_bytes = norm_scratch,
    .cost = norm_cost,
    .forward = norm_over_rows,
    .backward = norm_over_rows_back,
};

struct wk_tensor *wk_op_layer_norm(struct wk_tensor *x, struct wk_tensor *weight,
                                   struct wk_tensor *bias, double epsilon)
{
    struct norm_attributes attributes = {.epsilon = (float)epsilon, .mean = true};
    return graph_add(&(struct node_request){.row = &op_layer_norm,
                                            .attributes = &attributes,
                                            .attributes_bytes = sizeof(attributes),
                                            .n_in = 3,
                                            .in = {x, weight, bias}});
}
