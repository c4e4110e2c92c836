/* Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019, algorithm 2), as
 * torch.optim computes them.
 */
#include <math.h>

#include "libworker/optim/adam.h"

struct kernel_adamw adam_kernel(const struct wk_optimizer *o, const struct adam_rates *rates)
{
    const struct wk_adamw_options *a = rates->options;
    double rate = rates->rate, t = (double)o->steps;
    return (struct kernel_adamw){
        .beta1 = (float)a->beta1,
        .beta2 = (float)a->beta2,
        .epsilon = (float)a->epsilon,
        .step_size = (float)(rate / (1 - pow(a->beta1, t))),
        .inv_root2 = (float)(1 / sqrt(1 - pow(a->beta2, t))),
        .keep = rates->decoupled ? (float)(1 - rate * rates->weight_decay) : 1.0f,
        .l2 = rates->decoupled ? 0.0f : (float)rates->weight_decay,
    };
}

void adam_update(const struct optimizer_numbers *n, const struct kernel_update *update,
                 float grad_scale)
{
    struct kernel_adamw kernel = n->adamw;
    kernel.grad_scale = grad_scale;
    n->kernels->adamw(&kernel, update);
}

static struct kernel_adamw kernel_of(const struct wk_optimizer *o,
                                     const struct optimizer_segment *segment, bool decoupled)
{
    struct adam_rates rates = {
        .options = &o->options.adamw,
        .rate = wk_optimizer_rate(o) * segment->rate_scale,
        .weight_decay = segment->weight_decay,
        .decoupled = decoupled,
    };
    return adam_kernel(o, &rates);
}

static void adam_numbers(const struct wk_optimizer *o, const struct optimizer_segment *segment,
                         struct optimizer_numbers *ret)
{
    ret->adamw = kernel_of(o, segment, false);
}

static void adamw_numbers(const struct wk_optimizer *o, const struct optimizer_segment *segment,
                          struct optimizer_numbers *ret)
{
    ret->adamw = kernel_of(o, segment, true);
}

static const struct optimizer_ops adam_ops = {
    .name = "adam",
    .together = "adam of segments",
    .n_states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .numbers = adam_numbers,
    .update = adam_update,
};

static const struct optimizer_ops adamw_ops = {
    .name = "adamw",
    .together = "adamw of segments",
    .n_states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .numbers = adamw_numbers,
    .update = adam_update,
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
