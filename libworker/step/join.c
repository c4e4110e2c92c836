/* Steps of programs that bring their own data, of which ranks may have different amounts. */
#include <math.h>

#include <worker/worker.h>

#include "libworker/parallel/custom.h"
#include "libworker/step/context.h"

/* The weights of all ranks. false: the generation broke, or the error is sticky. */
static bool add_up(struct wk_context *ctx, double weight, double *ret_total)
{
    *ret_total = weight;
    int rc = wk_all_reduce(ctx->comm, ret_total, 1, WK_F64, WK_SUM, NULL);
    if (rc)
        (void)context_break(ctx, rc);
    return !rc;
}

bool wk_join(struct wk_context *ctx, double weight)
{
    double total;
    if (!ctx->model)
        return false;
    if (!(weight >= 0) || !isfinite(weight)) {
        struct error err = {0};
        (void)error_set(&err, WK_EINVAL, "wk_join was given the weight %g", weight);
        (void)context_fail(ctx, &err);
        return false;
    }
    for (;;) {
        if (!boundary_pass(ctx, NULL))
            return false;
        if (!add_up(ctx, weight, &total))
            continue;
        if (total > 0 || ctx->micro > 0)
            break;
        if (boundary_end(ctx))
            return false;
    }
    if (ctx->micro == 0)
        ctx->window = (int)settings_integer(&ctx->settings, SETTING_ACCUMULATION);
    /* Nobody has more for a window that has begun: a pass without data ends it. */
    if (total == 0)
        ctx->window = ctx->micro + 1;
    ctx->weights += total;
    ctx->phase = STEP_FILLING;
    /* The program's own passes read parameters whenever they like. */
    if (model_is_custom(ctx->model))
        (void)wk_gather_parameters(ctx->model);
    return true;
}
