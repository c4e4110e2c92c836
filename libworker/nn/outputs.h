/* An evaluation's outputs (wk_outputs). */
#ifndef NN_OUTPUTS_H
#define NN_OUTPUTS_H

#include <worker/nn.h>
#include <worker/types.h>

struct wk_model;

/* The token with the largest of logits[vocab], the first among equals. */
int32_t likeliest_token(const float *logits, int64_t vocab);

/* Zeros in the place of what a pass over this batch would write. */
void outputs_clear(const struct wk_model *model, const struct wk_batch *batch,
                   const struct wk_outputs *outputs);

#endif
