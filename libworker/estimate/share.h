/* A rank's bytes of parameters, gradients and optimizer state, and what it sends: by strategy.
 * Pure. */
#ifndef ESTIMATE_SHARE_H
#define ESTIMATE_SHARE_H

#include "libworker/estimate/estimate.h"

/* Fill in parameters (with buffers), low, gradients, optimizer and sent; the options are valid.
 * WK_ENOMEM. */
int share_of_state(const struct wk_model *model, const struct estimate_options *options,
                   struct estimate *e);

#endif
