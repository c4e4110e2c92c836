/* Adam's update, for the optimizers that end in it. Pure but for the arrays; one thread. */
#ifndef OPTIM_ADAM_H
#define OPTIM_ADAM_H

#include "libworker/optim/optimizer.h"

struct adam_numbers {
    const struct wk_adamw_options *options; /* betas and epsilon of it */
    double rate, weight_decay;
    bool decoupled; /* decay is subtracted from the parameter instead of added to the gradient */
    float grad_scale;
};

/* One update of `update->params` at step o->steps. */
void adam_update(const struct wk_optimizer *o, const struct adam_numbers *numbers,
                 const struct kernel_update *update);

/* 0, or WK_EINVAL naming the invalid number. */
int adam_moments_check(const struct wk_adamw_options *a, struct error *err);

#endif
