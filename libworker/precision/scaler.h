/* The dynamic loss scale of f16 training. The loss is multiplied by it before the backward pass and
 * the gradients divided by it before the update, so that small ones do not vanish. Pure: results
 * in, decisions out. Source: Micikevicius et al. 2018, section 3.2; the numbers are
 * torch.cuda.amp.GradScaler's. One thread.
 *
 *     finite ×interval: scale · growth          overflow: skip the step, scale · backoff
 */
#ifndef PRECISION_SCALER_H
#define PRECISION_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/precision.h>

#include "common/base/error.h"

struct scaler {
    struct wk_scaler_options options; /* filled in */
    double scale;                     /* part of a checkpoint, with clean_steps */
    int64_t clean_steps;              /* since the scale last changed */
    int64_t skipped;                  /* overflows so far, for people */
};

/* NULL or zeroed fields take the usual values. WK_EINVAL for a growth not above 1, a backoff not in
 * (0, 1), a scale that is not positive and finite. */
int scaler_init(struct scaler *scaler, const struct wk_scaler_options *options, struct error *err);

/* Call once per optimizer step; `finite`: every gradient of all ranks was finite. *ret_skip: the
 * step must be skipped. WK_EOVERFLOW if the scale is at `least` and gradients still overflow: the
 * loss itself is not finite. */
int scaler_update(struct scaler *scaler, bool finite, bool *ret_skip, struct error *err);

#endif
