/* What is counted of a plan (estimate/traffic.h), beside what its pass does on the fake runtime. */
#ifndef CUDA_PLAN_COUNTS_H
#define CUDA_PLAN_COUNTS_H

#include <worker/types.h>

#include "libworker/cuda/attention_rule.h"

struct wk_model;

enum { COUNTS_SAMPLES = 4, COUNTS_LENGTH = 128, COUNTS_VOCAB = 512 };

/* Run a training pass of the model, whose vocabulary and context are those above, and free it: each
 * launch has as many kernels as counted, and moves the counted bytes. Of attention by cuDNN, whose
 * fake leaves its workspace alone, only the kernels count. */
void counts_are_measured(struct wk_model *model, enum wk_dtype compute,
                         enum attention_choice attention);

#endif
