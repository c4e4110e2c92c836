/* Lion: Chen et al. 2023, algorithm 2. */
#include "libworker/optim/optimizer.h"

static void lion_numbers(const struct wk_optimizer *o, const struct optimizer_segment *segment,
                         struct optimizer_numbers *ret)
{
    const struct wk_lion_options *l = &o->options.lion;
    double rate = wk_optimizer_rate(o) * segment->rate_scale;
    ret->lion = (struct kernel_lion){
        .beta1 = (float)l->beta1,
        .beta2 = (float)l->beta2,
        .rate = (float)rate,
        .keep = (float)(1 - rate * segment->weight_decay),
    };
}

static void lion_update(const struct optimizer_numbers *n, const struct kernel_update *update,
                        float grad_scale)
{
    struct kernel_lion kernel = n->lion;
    kernel.grad_scale = grad_scale;
    n->kernels->lion(&kernel, update);
}

static const struct optimizer_ops lion_ops = {
    .name = "lion",
    .together = "lion of segments",
    .n_states = 1,
    .state_names = {"exp_avg"},
    .numbers = lion_numbers,
    .update = lion_update,
};

int wk_lion_new(const struct wk_lion_options *options, struct wk_optimizer **ret_optimizer)
{
    struct error err = {0};
    int rc = optimizer_options_check(options, &err);
    if (!rc)
        rc = optimizer_rate_check(options->rate, options->weight_decay, &err);
    if (!rc)
        rc = optimizer_beta_check("beta1", options->beta1, &err);
    if (!rc)
        rc = optimizer_beta_check("beta2", options->beta2, &err);
    if (rc)
        return optimizer_refuse(&err, ret_optimizer);
    rc = optimizer_new(&lion_ops, options->rate, options->weight_decay, ret_optimizer);
    if (!rc)
        (*ret_optimizer)->options.lion = *options;
    return rc;
}
