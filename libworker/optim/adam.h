/* Adam's update, for the optimizers that end in it. Pure but for the arrays; one thread. */
#ifndef OPTIM_ADAM_H
#define OPTIM_ADAM_H

#include "libworker/optim/optimizer.h"

struct adam_rates {
    const struct wk_adamw_options *options; /* betas and epsilon of it */
    double rate, weight_decay;
    bool decoupled; /* decay is subtracted from the parameter instead of added to the gradient */
};

/* What one update at step o->steps takes, but for its grad_scale. */
struct kernel_adamw adam_kernel(const struct wk_optimizer *o, const struct adam_rates *rates);

/* optimizer_ops' update, by numbers->adamw. */
void adam_update(const struct optimizer_numbers *numbers, const struct kernel_update *update,
                 float grad_scale);

/* 0, or WK_EINVAL naming the invalid number. */
int adam_moments_check(const struct wk_adamw_options *a, struct error *err);

#endif
