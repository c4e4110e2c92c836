/* Computes an evaluation's outputs from the logits of a language model (wk_outputs). */
#ifndef NN_OUTPUTS_H
#define NN_OUTPUTS_H

#include <worker/nn.h>

#include "libworker/kernel/kernel.h"

struct wk_model;

/* The token with the largest of logits[vocab], the first among equals. */
int32_t likeliest_token(const float *logits, int64_t vocab);

/* Write what is wanted of logits[rows, vocab], which are spent; returns the sum of the rows'
 * losses, 0 without targets. */
double outputs_take(const struct kernel_table *kernels, const struct kernel_entropy *entropy,
                    float *logits, const struct wk_outputs *outputs);

/* Zeros in the place of what a pass over this batch would write. */
void outputs_clear(const struct wk_model *model, const struct wk_batch *batch,
                   const struct wk_outputs *outputs);

#endif
