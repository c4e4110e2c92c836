/* Losses of rows of logits, for the rows of cross_entropy and head_cross_entropy. */
#ifndef OP_ENTROPY_H
#define OP_ENTROPY_H

#include "libworker/graph/op.h"

struct entropy_attributes {
    float smoothing;
};

struct entropy {
    const struct kernel_table *kernels;
    int64_t classes;
    float smoothing; /* the model's and the operation's, in training */
    const int32_t *targets;
    const float *dlosses; /* backward */
};

/* The node's attributes are entropy_attributes, and its last input is targets. */
struct entropy entropy_of(const struct op_call *call, int64_t classes);

/* In place: the logits of row `row` become probabilities. Its loss is losses[row]. */
void entropy_forward(const struct entropy *entropy, const struct op_tensor *losses, float *logits,
                     int64_t row);

/* d[classes] = the gradient of the row's logits, where dlosses[row] is that of its loss. */
void entropy_backward(const struct entropy *entropy, float *d, const float *probs, int64_t row);

/* The last input is targets[…] of i32 for in[0][…, n]; smoothing is a share. WK_EINVAL. */
int entropy_shape(const struct op_signature *s, struct error *err);

#endif
