/* Stochastic gradient descent with momentum (Sutskever et al. 2013), as torch.optim.SGD. */
#include "libworker/optim/optimizer.h"

static void sgd_numbers(const struct wk_optimizer *o, const struct optimizer_segment *segment,
                        struct optimizer_numbers *ret)
{
    const struct wk_sgd_options *s = &o->options.sgd;
    ret->sgd = (struct kernel_sgd){
        .rate = (float)(wk_optimizer_rate(o) * segment->rate_scale),
        .momentum = (float)s->momentum,
        .weight_decay = (float)segment->weight_decay,
        .nesterov = s->nesterov,
        .first = o->steps == 1,
    };
}

static void sgd_update(const struct optimizer_numbers *n, const struct kernel_update *update,
                       float grad_scale)
{
    struct kernel_sgd kernel = n->sgd;
    kernel.grad_scale = grad_scale;
    n->kernels->sgd(&kernel, update);
}

static const struct optimizer_ops sgd_ops = {
    .name = "sgd",
    .together = "sgd of segments",
    .numbers = sgd_numbers,
    .update = sgd_update,
};

static const struct optimizer_ops sgd_momentum_ops = {
    .name = "sgd",
    .together = "sgd of segments",
    .n_states = 1,
    .state_names = {"momentum_buffer"},
    .numbers = sgd_numbers,
    .update = sgd_update,
};

static int check_sgd(const struct wk_sgd_options *s, struct error *err)
{
    int rc = optimizer_options_check(s, err);
    if (!rc)
        rc = optimizer_rate_check(s->rate, s->weight_decay, err);
    if (!rc)
        rc = optimizer_beta_check("momentum", s->momentum, err);
    if (!rc && s->nesterov && !(s->momentum > 0))
        rc = error_set(err, WK_EINVAL, "nesterov needs a momentum above 0");
    return rc;
}

int wk_sgd_new(const struct wk_sgd_options *options, struct wk_optimizer **ret_optimizer)
{
    struct error err = {0};
    if (check_sgd(options, &err))
        return optimizer_refuse(&err, ret_optimizer);
    const struct optimizer_ops *ops = options->momentum > 0 ? &sgd_momentum_ops : &sgd_ops;
    int rc = optimizer_new(ops, options->rate, options->weight_decay, ret_optimizer);
    if (!rc)
        (*ret_optimizer)->options.sgd = *options;
    return rc;
}
