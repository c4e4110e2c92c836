/* losses[…] of logits[…, classes] against targets[…]. The probabilities are kept. */
#include <string.h>

#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/entropy.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { LOGITS, TARGETS, PROBS = 1 };

static int loss_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct wk_tensor *logits = s->in[LOGITS];
    int rc = rule_dims(s, LOGITS, (int[]){1, WK_TENSOR_DIMS_MAX}, err);
    if (rc)
        return rc;
    if (!rule_is_value(logits) || !dim_is_fixed(rule_last(logits)))
        return error_set(err, WK_EINVAL, "the logits are %s; they take f32 of fixed classes",
                         tensor_text(logits, text));
    s->n_out = 2;
    s->out[0] = rule_output(logits, 1);
    s->out[PROBS] = rule_output(logits, 0);
    return entropy_shape(s, rule_last(logits).fixed, err);
}

static int64_t classes_of(const struct node *node)
{
    return rule_last(node->in[LOGITS]).fixed;
}

static void loss_forward(const struct op_call *call)
{
    const struct op_tensor *logits = &call->in[LOGITS];
    int64_t classes = classes_of(call->node), rows = call->out[0].count;
    struct entropy entropy = entropy_of(call, classes);
    for (int64_t r = 0; r < rows; r++) {
        float *probs = (float *)call->out[PROBS].data + r * classes;
        const float *row = tile_read(entropy.kernels, logits, r * classes, classes, probs);
        if (row != probs)
            memcpy(probs, row, (size_t)classes * sizeof(*probs));
        entropy_forward(&entropy, &call->out[0], probs, r);
    }
}

static void loss_backward(const struct op_call *call)
{
    const struct op_tensor *d = &call->d_in[LOGITS];
    int64_t classes = classes_of(call->node), rows = call->d_out.count;
    struct entropy entropy = entropy_of(call, classes);
    const float *probs = call->out[PROBS].data;
    for (int64_t r = 0; r < rows && d->data; r++) {
        float *to = tile_target(d, r * classes, call->scratch);
        entropy_backward(&entropy, to, probs + r * classes, r);
        tile_store(entropy.kernels, d, r * classes, classes, to);
    }
}

/* A row of gradients, where they are added. */
static size_t scratch_bytes(const struct op_call *call, bool back)
{
    return back ? (size_t)classes_of(call->node) * sizeof(float) : 0;
}

static void loss_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    double flop = back ? 2 : 5;
    *ret = (struct op_cost){.flop = flop * (double)call->in[LOGITS].count,
                            .bytes = cost_bytes(call, back)};
}

static const struct op_attribute cross_entropy_attributes[] = {
    OP_ATTRIBUTE(struct entropy_attributes, smoothing),
    OP_ATTRIBUTE(struct entropy_attributes, class_weights),
    {0},
};

const struct op_row op_cross_entropy = {
    .name = "cross_entropy",
    .attributes = cross_entropy_attributes,
    .min_in = 2,
    .max_in = 2,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .shape = loss_shape,
    .keeps = OP_IN(TARGETS) | OP_OUT(PROBS),
    .differentiable = OP_IN(LOGITS),
    .index_input = 1 + TARGETS,
    .index_ignores = true,
    .index_bound = classes_of,
    .scratch_bytes = scratch_bytes,
    .cost = loss_cost,
    .forward = loss_forward,
    .backward = loss_backward,
};

struct wk_tensor *wk_op_cross_entropy(struct wk_tensor *logits, struct wk_tensor *targets,
                                      const struct wk_cross_entropy_options *options)
{
    struct entropy_attributes attributes =
        entropy_attributes_of(options, logits, logits ? logits->dims - 1 : -1);
    return graph_add(&(struct node_request){.row = &op_cross_entropy,
                                            .attributes = &attributes,
                                            .attributes_bytes = sizeof(attributes),
                                            .n_in = 2,
                                            .in = {logits, targets}});
}
