/* wk_next: the batches of loaders (worker/worker.h). */
#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/counts.h"
#include "libworker/step/gather.h"

static int number_of(const struct wk_context *ctx, const struct wk_loader *loader)
{
    int number = 0;
    while (ctx->prepared.loaders[number] != loader)
        number++;
    return number;
}

/* A global batch for the step in progress. The first of a window counts for all of it. */
static void take_batch(struct wk_context *ctx, struct wk_loader *loader, struct wk_batch *batch)
{
    int number = number_of(ctx, loader);
    window_deal(ctx, number);
    if (ctx->step.window < 1) {
        int64_t left = 1 + loader->batches_after;
        int64_t wanted = settings_integer(&ctx->settings, SETTING_ACCUMULATION);
        ctx->step.window = (int)(left < wanted ? left : wanted);
    }
    bool begins = (ctx->step.dealt[number] - 1) % ctx->step.window == 0;
    if (begins && !counts_window(ctx, loader, ctx->step.window))
        return;
    if (settings_integer(&ctx->settings, SETTING_BY_TOKENS))
        batch->denominator = loader_weigh(loader, ctx->step.window, begins);
    ctx->step.tokens += batch->denominator;
    if (ctx->step.weighed)
        ctx->step.weight = 0;
    /* Passes under wk_join's weight keep that weight as their share. */
    if (!(ctx->step.weight > 0))
        units_share(ctx, loader->own / batch->denominator);
}

/* A loader of no context, or one that could not be made. */
static void refuse_loader(const struct wk_loader *loader)
{
    struct error err = {0};
    if (loader && loader->maker) {
        (void)error_set(&err, WK_ESTATE, "wk_next of a loader that wk_prepare was not given");
        (void)context_misuse(loader->maker, &err);
    } else {
        (void)unit_missing(loader, WK_OBJECT_LOADER, "wk_next");
    }
}

/* No batch. An evaluation, complete or not, ends with that; the next one starts from the beginning.
 */
static bool end_of(struct wk_loader *loader)
{
    if (loader->options.evaluation)
        (void)loader_seek(loader, 0);
    return false;
}

/* Where wk_prepare was not called the context that owns the loader prepares what it owns. */
static struct wk_context *prepared_of(struct wk_loader *loader)
{
    if (!loader->owner && loader->owned_by) {
        struct wk_context *maker = loader->maker;
        if (maker == loader->owned_by && !maker->prepared.n_units)
            (void)wk_prepare(maker, NULL, 0);
    }
    return loader->owner;
}

bool wk_next(struct wk_loader *loader, struct wk_batch *ret_batch)
{
    struct wk_context *ctx = loader ? prepared_of(loader) : NULL;
    if (!ctx) {
        refuse_loader(loader);
        return false;
    }
    if (!ret_batch) {
        (void)context_misuse_text(ctx, WK_EINVAL, "wk_next was given no batch to fill");
        return false;
    }
    bool training = !loader->options.evaluation;
    if (training ? !boundary_pass(ctx, number_of(ctx, loader))
                 : context_idle(ctx) || !boundary_evaluates(ctx))
        return end_of(loader);
    struct error err = {0};
    struct loader_place place = {ctx->group.rank, ctx->group.world};
    int64_t cursor = loader->cursor;
    profile_begin(&ctx->reports.profile, PROFILE_DATA);
    int rc = loader_next(loader, &place, ret_batch, &err);
    profile_end(&ctx->reports.profile);
    if (rc < 0)
        (void)context_fail(ctx, &err);
    if (rc <= 0)
        return end_of(loader);
    if (context_rests(ctx))
        loader->cursor = cursor; /* this batch has no effect */
    else if (training)
        take_batch(ctx, loader, ret_batch);
    else if (!counts_window(ctx, loader, 1))
        return end_of(loader);
    if (ctx->failure.sticky.code)
        return end_of(loader);
    /* The program's own passes read parameters at any time. */
    units_gather(ctx);
    return true;
}
