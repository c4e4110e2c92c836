/* An optimizer works on flat ranges: `count` parameters, their gradients and its own state arrays
 * of the same length, cut into segments that either decay or not. A whole model is one range; a
 * rank of ZeRO binds only its own part.
 *
 * Owned by the caller through worker/optim.h; the state arrays belong to the optimizer. One thread.
 */
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/error.h>
#include <worker/optim.h>

#include "common/base/error.h"
#include "libworker/kernel/kernel.h"

enum { OPTIMIZER_STATES_MAX = 2 };

struct param;

/* Segments are in order, without gaps, and cover the range. */
struct optimizer_segment {
    size_t offset, count; /* in elements of the range */
    bool decay;
};

struct optimizer_ops {
    const char *name;                              /* "adamw" */
    int n_states;                                  /* arrays of the range's length */
    const char *state_names[OPTIMIZER_STATES_MAX]; /* as checkpoints call them: "exp_avg" */
    /* One segment of one step; `steps` already counts this step (first step: 1). */
    void (*step)(struct wk_optimizer *, const struct optimizer_segment *, float *params,
                 const float *grads, float grad_scale);
};

struct wk_optimizer {
    const struct optimizer_ops *ops;
    const struct kernel_table *kernels;
    union {
        struct wk_adamw_options adamw;
        struct wk_sgd_options sgd;
    } options;
    double base_rate; /* the option's */
    double factor;    /* the schedule's, 1 without one */
    int64_t steps;    /* taken since the start of training; part of a checkpoint */
    size_t count;     /* of the range; 0 until optimizer_bind */
    struct optimizer_segment *segments;
    int n_segments;
    float *state[OPTIMIZER_STATES_MAX]; /* [count] each, named by ops->state_names; zero at first */
};

/* Take the part [first, first + count) of the arena that `params[n_params]` describe as this
 * optimizer's range, allocate zeroed state and reset steps to 0. Binding again discards the state.
 * WK_EINVAL when the range is not inside the arena, WK_ENOMEM.
 */
int optimizer_bind(struct wk_optimizer *optimizer, const struct param *params, int n_params,
                   size_t first, size_t count, struct error *err);

/* One step over the bound range at the present rate: params[count] are updated from
 * grads[count] * grad_scale, which is how clipping and unscaling cost nothing extra. Both pointers
 * are to the first element of the range. WK_ESTATE when not bound.
 */
int optimizer_step(struct wk_optimizer *optimizer, float *params, const float *grads,
                   float grad_scale, struct error *err);

/* For implementations: an optimizer without a range. WK_ENOMEM. */
int optimizer_new(const struct optimizer_ops *ops, double rate,
                  struct wk_optimizer **ret_optimizer);

/* The name of state array i as in checkpoints, or NULL past the last. */
const char *optimizer_state_name(const struct wk_optimizer *optimizer, int i);

#endif
