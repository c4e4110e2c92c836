/* The largest batch that fits into every rank's memory (worker/worker.h).
 *
 * A try of a model of ours computes nothing. The plan of a pass has its bytes, and the region is
 * reserved at once, which is granted or refused. The kernel also counts what else the process has,
 * as no sum of planned bytes would. Only a program's own passes find their memory by using it.
 */
#include <sys/mman.h>

#include "libworker/parallel/custom.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/counts.h"
#include "libworker/step/memory_budget.h"

enum { TOKEN_BYTES = 2 * sizeof(int32_t), SLACK_BYTES = 16 << 20 };

/* The largest share of a global batch among the ranks. */
static int64_t share_of(const struct wk_context *ctx, int64_t batch)
{
    return (batch + ctx->group.world - 1) / ctx->group.world;
}

static int attempt(const struct wk_loader *loader, const struct wk_batch_search *search,
                   int64_t samples, struct error *err)
{
    struct wk_context *ctx = loader->owner;
    if (search && search->attempt) {
        int rc = search->attempt(search->arg, samples);
        return rc ? error_set(err, rc, "a batch of %lld samples", (long long)samples) : 0;
    }
    const struct unit *unit;
    int64_t context = 0;
    units_each(unit, ctx) {
        if (model_is_custom(unit->model))
            return error_set(
                err, WK_EUNSUPPORTED,
                "wk_find_batch: only the program can try its own passes: pass an attempt");
        context = unit->model->context > context ? unit->model->context : context;
    }
    /* Other memory of a step: the batch itself, a thread, libraries' temporary memory. */
    int window = (int)settings_integer(&ctx->settings, SETTING_ACCUMULATION);
    size_t sample = (size_t)context * TOKEN_BYTES;
    size_t own = loader_sample_bytes(loader) * (size_t)counts_held(ctx, loader, window);
    size_t rest = SLACK_BYTES + (size_t)samples * (own > sample ? own : sample);
    void *held = mmap(NULL, rest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (held == MAP_FAILED)
        return error_set(err, WK_ENOMEM, "no memory for %zu bytes", rest);
    int rc = 0;
    units_each(unit, ctx)
        rc = rc ? rc : model_reserve(unit->model, samples, unit->model->context, err);
    (void)munmap(held, rest);
    return rc;
}

/* Free the memory of a try. */
static void give_back(struct wk_context *ctx)
{
    const struct unit *unit;
    units_each(unit, ctx)
        (void)model_reserve(unit->model, 0, 0, NULL);
}

/* The result of all ranks' attempts: the worst one, so that all do the same next. Any failure but
 * that of memory ends the search on all ranks. */
enum outcome { FITS, TOO_LARGE, FAILED };

static enum outcome outcome_of(int rc)
{
    return !rc ? FITS : rc == WK_ENOMEM ? TOO_LARGE : FAILED;
}

/* 0 and the result of all ranks, or the code of the collective. */
static int agree(struct wk_context *ctx, int rc, enum outcome *ret)
{
    int32_t outcome = (int32_t)outcome_of(rc);
    rc = ctx->group.comm ? wk_all_reduce(ctx->group.comm, &outcome, 1, WK_I32, WK_MAX, NULL) : 0;
    *ret = (enum outcome)outcome;
    return rc;
}

static int search_batch(const struct wk_loader *loader, const struct wk_batch_search *search,
                        int64_t *batch, struct error *err)
{
    struct wk_context *ctx = loader->owner;
    for (;;) {
        enum outcome outcome;
        int own = attempt(loader, search, share_of(ctx, *batch), err);
        int rc = agree(ctx, own, &outcome);
        if (rc) {
            error_clear(err);
            return context_break(ctx, rc);
        }
        if (outcome == FITS)
            return 0;
        if (outcome == FAILED)
            return own ? own : error_set(err, WK_EABORT, "another rank could not try a batch");
        if (share_of(ctx, *batch) == 1)
            return error_set(err, WK_ENOMEM,
                             "not even one sample for each rank fits into the memory of all");
        error_clear(err);
        *batch = (*batch + 1) / 2;
        if (!search || !search->attempt)
            give_back(ctx);
    }
}

int wk_find_batch(struct wk_loader *loader, const struct wk_batch_search *search,
                  int64_t *ret_batch)
{
    struct wk_context *ctx = loader ? loader->owner : NULL;
    struct error err = {0};
    if (!ctx)
        return unit_missing(loader, WK_OBJECT_LOADER, "wk_find_batch");
    if (ctx->failure.sticky.code || context_rests(ctx))
        return ctx->failure.sticky.code;
    if (ctx->step.phase != STEP_BOUNDARY)
        return context_refuse(ctx, WK_ESTATE, "wk_find_batch inside a step: call it between steps");
    int64_t batch = loader->options.batch;
    struct memory_budget budget;
    (void)kernel_warm(kernel_cpu()); /* the first try reports a failure again */
    int rc = memory_budget_begin(ctx, &budget, &err);
    if (rc)
        return err.code ? context_fail(ctx, &err) : context_break(ctx, rc);
    rc = search_batch(loader, search, &batch, &err);
    memory_budget_end(&budget);
    if (rc || context_rests(ctx))
        return err.code ? context_fail(ctx, &err) : ctx->failure.sticky.code;
    loader->options.batch = batch;
    if (ret_batch)
        *ret_batch = batch;
    return 0;
}
