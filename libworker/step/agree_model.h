/* Ranks that train one model must compute the same: when a generation meets, they compare each
 * model's operations. Ranks that meet for the first time also compare the options and the plan of
 * its training pass, for the largest share of the loader's batch. Later a program may have changed
 * the options. Otherwise gradients of different functions would be summed. Rank 0 is the reference,
 * and its budgets of recomputation are those of all ranks. */
#ifndef STEP_AGREE_MODEL_H
#define STEP_AGREE_MODEL_H

#include "common/base/error.h"

struct wk_context;

/* All ranks call it, with as many models. WK_EMISMATCH on all ranks: the sentence has the first
 * rank that differs, and the first line that does. WK_ENOMEM on all; or the code of a collective.
 */
int models_agree(struct wk_context *ctx, struct error *err);

#endif
