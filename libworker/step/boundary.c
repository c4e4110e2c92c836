#include "libworker/step/boundary.h"

#include <stdio.h>

#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/departure.h"
#include "libworker/step/generation.h"

/* Ranks with parts of one state need each other in a pass, and leave only after a step. They end an
 * evaluation before the same batch, and discard its partial results. */
static bool evaluates_together(struct wk_context *ctx)
{
    int32_t ends = stop_requested(ctx) || stop_superseded(ctx);
    int rc = wk_all_reduce(ctx->group.comm, &ends, 1, WK_I32, WK_MAX, NULL);
    if (rc)
        return (void)context_break(ctx, rc), false;
    ctx->loop.cut_short = ctx->loop.cut_short || ends;
    if (ends)
        context_notice(ctx,
                       "evaluation ends early: a rank was asked to stop, or generation %llu "
                       "is over",
                       (unsigned long long)ctx->group.generation);
    return !ends;
}

bool boundary_evaluates(struct wk_context *ctx)
{
    if (ctx->cut.is_sharded)
        return evaluates_together(ctx);
    if (stop_requested(ctx)) {
        /* Without a session the others learn of it only in the sums of a step. */
        if (!ctx->session && ctx->group.world > 1)
            return true;
        /* A rank with the whole state stops here, before it meets the others in a step. Within a
         * step it leaves the step too, because others may continue with the next batch's sums,
         * which it never joins. */
        if (ctx->session)
            (void)context_break(ctx, WK_EABORT);
        return false;
    }
    if (!stop_superseded(ctx))
        return true;
    context_notice(ctx, "evaluation ends early: generation %llu is over",
                   (unsigned long long)ctx->group.generation);
    /* A partial evaluation is neither summed nor logged; the step in progress is repeated. */
    (void)context_break(ctx, WK_EABORT);
    return false;
}

/* Join the next generation. false: the error is sticky. */
static bool renew(struct wk_context *ctx)
{
    struct error err = {0};
    int64_t step = ctx->state.numbers.step;
    int rc = ctx->step.phase == STEP_BROKEN ? 0 : context_break(ctx, WK_EABORT);
    ctx->state.rng = ctx->state.numbers.rng; /* a pass without effect drew numbers as well */
    if (!rc)
        rc = context_reform(ctx, &err);
    if (rc == WK_ESTOPPED)
        return true; /* the stop request is handled next */
    if (rc) {
        (void)context_fail(ctx, &err);
        return false;
    }
    char before[48] = "";
    if (ctx->state.numbers.step != step)
        (void)snprintf(before, sizeof(before), " (it was at %lld)", (long long)step);
    context_notice(ctx, "generation %llu: rank %d of %d, step %lld%s",
                   (unsigned long long)ctx->group.generation, ctx->group.rank, ctx->group.world,
                   (long long)ctx->state.numbers.step, before);
    return true;
}

static bool finished(const struct wk_context *ctx, const struct wk_loader *loader)
{
    return (ctx->state.numbers.total_steps &&
            ctx->state.numbers.step >= ctx->state.numbers.total_steps) ||
           (loader && loader_at_end(loader));
}

/* No rank leaves before all are here and the last checkpoint is on disk: a rank that dies in its
 * last step is still replaced. */
static bool end_together(struct wk_context *ctx)
{
    struct error err = {0};
    int rc = save_last(ctx, &err);
    /* Work that a newer generation repeats is not a failure. */
    if (rc && (rc == WK_EABORT || stop_superseded(ctx)))
        rc = WK_EABORT;
    else if (rc)
        (void)context_fail(ctx, &err);
    else
        rc = wk_barrier(ctx->group.comm, NULL);
    if (rc && !ctx->failure.sticky.code)
        (void)context_break(ctx, rc);
    return !rc;
}

static bool stop(struct wk_context *ctx)
{
    char why[STOP_WHY_MAX + 1];
    struct error err = {0};
    (void)save_last(ctx, NULL);
    /* torchrun and mpirun end all ranks with the first one that ends, and one of them is saving. */
    if (!ctx->session && ctx->group.comm)
        (void)wk_barrier(ctx->group.comm, NULL);
    stop_why(ctx, why);
    (void)error_set(&err, WK_ESTOPPED, "asked to stop after step %lld%s",
                    (long long)ctx->state.numbers.step, why);
    (void)context_fail(ctx, &err);
    return false;
}

/* The state continues on the other ranks; no rank waits for a checkpoint of this generation. */
static bool leave(struct wk_context *ctx)
{
    char why[STOP_WHY_MAX + 1];
    struct error err = {0};
    if (ctx->saving.saver)
        saver_cancel(ctx->saving.saver);
    stop_why(ctx, why);
    (void)error_set(&err, WK_ESTOPPED, "asked to stop after step %lld, the others go on%s",
                    (long long)ctx->state.numbers.step, why);
    (void)context_fail(ctx, &err);
    return false;
}

bool boundary_pass(struct wk_context *ctx, int source)
{
    const struct wk_loader *loader = source == SOURCE_OWN ? NULL : ctx->prepared.loaders[source];
    ctx->loop.cut_short = ctx->loop.all_triggered = false;
    window_check(ctx, source);
    if (window_joins(ctx, source, loader))
        return true;
    window_end_step(ctx);
    for (;;) {
        if (ctx->failure.sticky.code || ctx->loop.ended)
            return false;
        switch (departure_decide(ctx)) {
        case DEPARTURE_NONE:
            break;
        case DEPARTURE_AGAIN:
            continue;
        case DEPARTURE_STOP:
            return stop(ctx);
        case DEPARTURE_LEAVE:
            return leave(ctx);
        case DEPARTURE_RENEW:
            if (!renew(ctx))
                return false;
            continue;
        }
        profile_begin(&ctx->reports.profile, PROFILE_CHECKPOINT);
        save_if_due(ctx);
        profile_end(&ctx->reports.profile);
        if (!finished(ctx, loader))
            return true;
        ctx->loop.ended = end_together(ctx);
    }
}

bool boundary_end(struct wk_context *ctx)
{
    ctx->loop.ended = end_together(ctx);
    return ctx->loop.ended;
}
