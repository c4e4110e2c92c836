/* Steps of programs with their own data, of which ranks may have different amounts. */
#include <math.h>

#include <worker/worker.h>

#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/gather.h"

/* Sum the weights of all ranks. false: the generation broke, or the error is sticky. */
static bool add_up(struct wk_context *ctx, double weight, double *ret_total)
{
    *ret_total = weight;
    int rc = wk_all_reduce(ctx->group.comm, ret_total, 1, WK_F64, WK_SUM, NULL);
    if (rc)
        (void)context_break(ctx, rc);
    return !rc;
}

/* Prepared, if need be with what the context owns. */
static bool ready(struct wk_context *ctx)
{
    struct error err = {0};
    if (!ctx) {
        (void)error_set(&err, WK_EINVAL, "wk_join in NULL instead of a context");
        (void)error_keep(&err);
        return false;
    }
    if (!ctx->prepared.n_units && ctx->owned.count)
        (void)wk_prepare(ctx, NULL, 0);
    if (ctx->prepared.n_units)
        return true;
    (void)error_set(&err, WK_ESTATE, "wk_join before wk_prepare");
    (void)context_misuse(ctx, &err);
    return false;
}

bool wk_join(struct wk_context *ctx, double weight)
{
    double total;
    if (!ready(ctx))
        return false;
    if (!(weight >= 0) || !isfinite(weight)) {
        struct error err = {0};
        (void)error_set(&err, WK_EINVAL, "wk_join was given the weight %g", weight);
        (void)context_fail(ctx, &err);
        return false;
    }
    uint64_t generation = ctx->group.generation;
    for (;;) {
        if (!boundary_pass(ctx, SOURCE_OWN))
            return false;
        if (context_rests(ctx))
            return true; /* this pass has no effect */
        /* The weight and the share of the data are from the old membership. */
        if (ctx->group.generation != generation) {
            window_void(ctx);
            units_show_bound(ctx); /* the new generation may have moved the parameters */
            return true;
        }
        if (!add_up(ctx, weight, &total))
            continue;
        if (total > 0 || units_open(ctx))
            break;
        if (boundary_end(ctx))
            return false;
    }
    window_deal(ctx, SOURCE_OWN);
    /* No rank has more data for a window that has begun: a pass without data ends it. */
    ctx->step.ends = total == 0;
    ctx->step.weight = total;
    ctx->step.weighed = false;
    ctx->step.joins++;
    units_share(ctx, weight);
    /* The program's own passes read parameters at any time. */
    units_gather(ctx);
    return true;
}
