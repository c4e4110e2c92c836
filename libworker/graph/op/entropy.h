/* Losses of rows of logits, for the rows of cross_entropy and head_cross_entropy. */
#ifndef OP_ENTROPY_H
#define OP_ENTROPY_H

#include "libworker/graph/op.h"

struct entropy_attributes {
    float smoothing;
    const float *weights; /* [classes] in the graph's memory, or NULL */
    double class_weights; /* sum of (1 + class) times its weight, for ranks that compare graphs */
};

struct entropy {
    const struct kernel_table *kernels;
    int64_t classes;
    float smoothing; /* the model's and the operation's, in training */
    const int32_t *targets;
    const float *weights; /* [classes] of targets, or NULL */
    const float *dlosses; /* backward */
};

/* The attributes of these options, NULL for none, where dimension `dim` of `of` counts classes. */
struct entropy_attributes entropy_attributes_of(const struct wk_cross_entropy_options *options,
                                                const struct wk_tensor *of, int dim);

/* The model's share and the operation's, in training. */
static inline float entropy_smoothing(const struct op_call *call)
{
    const struct entropy_attributes *a = call->node->attributes;
    return call->pass->trains ? a->smoothing + (float)call->pass->smoothing : 0;
}

/* The node's attributes are entropy_attributes, and its last input is targets. */
struct entropy entropy_of(const struct op_call *call, int64_t classes);

/* In place: the logits of row `row` become probabilities. Its loss is losses[row]. */
void entropy_forward(const struct entropy *entropy, const struct op_tensor *losses, float *logits,
                     int64_t row);

/* d[classes] = the gradient of the row's logits, where dlosses[row] is that of its loss. */
void entropy_backward(const struct entropy *entropy, float *d, const float *probs, int64_t row);

/* The last input is targets[…] of i32 for in[0][…, n]; smoothing is a share, weights are finite.
 * WK_EINVAL. */
int entropy_shape(const struct op_signature *s, int64_t classes, struct error *err);

#endif
