/* AdamW: Loshchilov and Hutter 2019, algorithm 2, as torch.optim.AdamW computes it. */
#include <math.h>

#include "libworker/optim/optimizer.h"

static void adamw_step(struct wk_optimizer *o, const struct optimizer_segment *segment,
                       float *params, const float *grads, float grad_scale)
{
    const struct wk_adamw_options *a = &o->options.adamw;
    double rate = wk_optimizer_rate(o), t = (double)o->steps;
    struct kernel_adamw kernel = {
        .beta1 = (float)a->beta1,
        .beta2 = (float)a->beta2,
        .epsilon = (float)a->epsilon,
        .step_size = (float)(rate / (1 - pow(a->beta1, t))),
        .inv_root2 = (float)(1 / sqrt(1 - pow(a->beta2, t))),
        .keep = segment->decay ? (float)(1 - rate * a->weight_decay) : 1.0f,
        .grad_scale = grad_scale,
    };
    struct kernel_update update = {
        .params = params,
        .grads = grads,
        .state = {o->state[0] + segment->offset, o->state[1] + segment->offset},
        .count = segment->count,
    };
    o->kernels->adamw(&kernel, &update);
}

static const struct optimizer_ops adamw_ops = {
    .name = "adamw",
    .n_states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .step = adamw_step,
};

static bool acceptable(const struct wk_adamw_options *a)
{
    return a->rate > 0 && isfinite(a->rate) && a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 &&
           a->beta2 < 1 && a->epsilon >= 0 && isfinite(a->epsilon) && a->weight_decay >= 0 &&
           isfinite(a->weight_decay);
}

int wk_adamw_new(const struct wk_adamw_options *options, struct wk_optimizer **ret_optimizer)
{
    if (!acceptable(options))
        return WK_EINVAL;
    int rc = optimizer_new(&adamw_ops, options->rate, ret_optimizer);
    if (!rc)
        (*ret_optimizer)->options.adamw = *options;
    return rc;
}
