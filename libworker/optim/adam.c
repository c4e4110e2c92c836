/* Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019, algorithm 2), as
 * torch.optim computes them.
 */
#include <math.h>

#include "libworker/optim/adam.h"

void adam_update(const struct wk_optimizer *o, const struct adam_numbers *numbers,
                 const struct kernel_update *update)
{
    const struct wk_adamw_options *a = numbers->options;
    double rate = numbers->rate, t = (double)o->steps;
    struct kernel_adamw kernel = {
        .beta1 = (float)a->beta1,
        .beta2 = (float)a->beta2,
        .epsilon = (float)a->epsilon,
        .step_size = (float)(rate / (1 - pow(a->beta1, t))),
        .inv_root2 = (float)(1 / sqrt(1 - pow(a->beta2, t))),
        .keep = numbers->decoupled ? (float)(1 - rate * numbers->weight_decay) : 1.0f,
        .l2 = numbers->decoupled ? 0.0f : (float)numbers->weight_decay,
        .grad_scale = numbers->grad_scale,
    };
    o->kernels->adamw(&kernel, update);
}

static void step_segment(struct wk_optimizer *o, const struct optimizer_segment *segment,
                         const struct kernel_update *update, float grad_scale, bool decoupled)
{
    struct adam_numbers numbers = {
        .options = &o->options.adamw,
        .rate = wk_optimizer_rate(o) * segment->rate_scale,
        .weight_decay = segment->weight_decay,
        .decoupled = decoupled,
        .grad_scale = grad_scale,
    };
    adam_update(o, &numbers, update);
}

static void adam_step(struct wk_optimizer *o, const struct optimizer_segment *segment,
                      const struct kernel_update *update, float grad_scale)
{
    step_segment(o, segment, update, grad_scale, false);
}

static void adamw_step(struct wk_optimizer *o, const struct optimizer_segment *segment,
                       const struct kernel_update *update, float grad_scale)
{
    step_segment(o, segment, update, grad_scale, true);
}

static const struct optimizer_ops adam_ops = {
    .name = "adam",
    .n_states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .step = adam_step,
};

static const struct optimizer_ops adamw_ops = {
    .name = "adamw",
    .n_states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .step = adamw_step,
};

int adam_moments_check(const struct wk_adamw_options *a, struct error *err)
{
    int rc = optimizer_beta_check("beta1", a->beta1, err);
    if (!rc)
        rc = optimizer_beta_check("beta2", a->beta2, err);
    if (!rc && (!(a->epsilon >= 0) || !isfinite(a->epsilon)))
        rc = error_set(err, WK_EINVAL, "epsilon is %g: it must be 0 or more", a->epsilon);
    return rc;
}

static int new_of(const struct optimizer_ops *ops, const struct wk_adamw_options *options,
                  struct wk_optimizer **ret_optimizer)
{
    struct error err = {0};
    int rc = optimizer_options_check(options, &err);
    if (!rc)
        rc = optimizer_rate_check(options->rate, options->weight_decay, &err);
    if (!rc)
        rc = adam_moments_check(options, &err);
    if (rc)
        return optimizer_refuse(&err, ret_optimizer);
    rc = optimizer_new(ops, options->rate, options->weight_decay, ret_optimizer);
    if (!rc)
        (*ret_optimizer)->options.adamw = *options;
    return rc;
}

int wk_adam_new(const struct wk_adamw_options *options, struct wk_optimizer **ret_optimizer)
{
    return new_of(&adam_ops, options, ret_optimizer);
}

int wk_adamw_new(const struct wk_adamw_options *options, struct wk_optimizer **ret_optimizer)
{
    return new_of(&adamw_ops, options, ret_optimizer);
}
