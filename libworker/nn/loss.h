/* Losses. A language model ends with logits by a head (tied to the embedding or not), softmax and
 * cross-entropy in one. The logits' buffer therefore has probabilities and then gradients. */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include <stdint.h>

#include "libworker/nn/model.h"
#include "libworker/nn/product.h"

struct head_loss {
    const struct kernel_table *kernels;
    int64_t rows, width, vocab;
    const int32_t *targets; /* [rows]; negative ones are left out */
    float smoothing;        /* share of the target spread over the vocabulary */
    const float *table;     /* [vocab, width] */
    float *dtable;          /* the same shape */
    const struct low *low;  /* NULL: in float */
    const uint16_t *table_low;
};

/* logits[rows, vocab] = x[rows, width] table^T. */
void head_logits(const struct head_loss *head, float *logits, struct operand x);

/* As head_logits, then logits become probabilities; returns the sum of the rows' losses. */
double head_loss_forward(const struct head_loss *head, float *logits, struct operand x);

/* probs become the logits' gradient times scale; dx[rows, width] is overwritten, dtable added to.
 */
void head_loss_backward(const struct head_loss *head, float *dx, float *probs, struct operand x,
                        float scale);

/* Sum of squares of difference[count] = x - target; back, dx = 2 * scale * difference. */
double square_loss_forward(const struct kernel_table *kernels, float *difference, const float *x,
                           const float *target, size_t count);
void square_loss_backward(const struct kernel_table *kernels, float *dx, const float *difference,
                          float scale, size_t count);

#endif
