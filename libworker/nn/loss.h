/* The end of a language model: logits by a head tied to the embedding, softmax and cross-entropy in
 * one, so that the logits' buffer holds probabilities and then gradients.
 */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include <stdint.h>

#include "libworker/nn/model.h"

struct head_loss {
    const struct kernel_table *kernels;
    int64_t rows, width, vocab;
    const int32_t *targets; /* [rows] */
    const float *table;     /* [vocab, width], the embedding */
    float *dtable;          /* likewise */
};

/* logits[rows, vocab] = x[rows, width] table^T. */
void head_logits(const struct head_loss *head, float *logits, const float *x);

/* As head_logits, then logits become probabilities; returns the sum of the rows' losses. */
double head_loss_forward(const struct head_loss *head, float *logits, const float *x);

/* probs become the logits' gradient times scale; dx[rows, width] is overwritten, dtable added to.
 */
void head_loss_backward(const struct head_loss *head, float *dx, float *probs, const float *x,
                        float scale);

#endif
