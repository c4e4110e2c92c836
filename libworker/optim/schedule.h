/* Learning-rate schedules: the factor of a step is arithmetic on its number (see worker/optim.h).
 * A scheduler counts steps and hands the factor to its optimizer. One thread.
 */
#ifndef OPTIM_SCHEDULE_H
#define OPTIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/optim.h>

#include "common/base/error.h"

struct wk_scheduler {
    struct wk_schedule_options options; /* its parts are those below */
    struct wk_schedule_options parts[WK_SCHEDULE_PARTS_MAX];
    int64_t step;                   /* number of optimizer steps; part of a checkpoint */
    struct wk_optimizer *optimizer; /* not owned */
    const void *owned_by;           /* the context that frees it, or NULL; kept by step/ */
};

/* Factor of the base rate at `step` (0 is the first). Pure, if `lambda` is. */
double schedule_factor(const struct wk_schedule_options *options, int64_t step);

/* Whether the numbers make sense, parts included: 0, or WK_EINVAL with which does not. */
int schedule_check(const struct wk_schedule_options *options, struct error *err);

/* Set the position (0 at first, or from a checkpoint) and the optimizer's rate with it. */
void scheduler_set_step(struct wk_scheduler *scheduler, int64_t step);

/* Advance by one optimizer step, and set the optimizer's rate. */
void scheduler_advance(struct wk_scheduler *scheduler);

#endif
