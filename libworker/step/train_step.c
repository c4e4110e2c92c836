/* The end of a window: its sums are awaited, clipped, and applied by the optimizer
 * (worker/worker.h). */
#include "libworker/parallel/custom.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/break.h"
#include "libworker/step/carried.h"
#include "libworker/step/context.h"
#include "libworker/step/gather.h"

/* false: the step in progress is lost. */
static bool clamp(struct unit *unit, double max_value)
{
    int rc = sums_limit(unit, max_value);
    if (rc)
        (void)context_break(unit->ctx, rc);
    return !rc;
}

/* At a window's end, wait for its sums over the ranks. false: not the end of a window, the step in
 * progress is lost, or the error is sticky. */
static bool finish_sums(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    if (context_idle(ctx) || !sums_begun(&unit->sums) || !unit->micro)
        return false;
    if (unit->sums.phase == WINDOW_COMPLETE)
        return true;
    if (unit->begun) {
        (void)context_misuse_text(
            ctx, WK_ESTATE,
            "gradients of a pass were announced (wk_grad_ready), and it has not ended: call "
            "wk_backward before their sums are used");
        return false;
    }
    profile_begin(&ctx->reports.profile, PROFILE_EXPOSED);
    struct error err = {0};
    int rc = sums_finish(unit, 1.0 / (window_weight(unit) * mixed_scale(unit)), &err);
    if (!rc)
        rc = carried_mean(unit, &err);
    profile_end(&ctx->reports.profile);
    if (rc) {
        (void)context_pass_failed(ctx, rc, &err);
        return false;
    }
    double limit = settings_number(&ctx->settings, SETTING_CLIP_GRAD_VALUE);
    return !(limit > 0) || clamp(unit, limit);
}

/* false: the step in progress is lost. */
static bool clip(struct unit *unit, double max_norm)
{
    int rc = sums_clip(unit, max_norm);
    if (rc)
        (void)context_break(unit->ctx, rc);
    return !rc;
}

/* Wait for the norm. 0: the step in progress is lost, or the error is sticky. */
static double norm_now(struct unit *unit)
{
    struct error err = {0};
    struct sums_result result = {0};
    (void)context_pass_failed(unit->ctx, sums_result(unit, &result, &err), &err);
    return result.norm;
}

int wk_clip_grad_norm(struct wk_model *model, float max_norm, float *ret_norm)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_clip_grad_norm");
    double norm = 0;
    if (!(max_norm >= 0))
        (void)context_misuse_text(unit->ctx, WK_EINVAL,
                                  "wk_clip_grad_norm needs a limit above 0, or 0 only to measure");
    if (finish_sums(unit) && clip(unit, (double)max_norm) && ret_norm)
        norm = norm_now(unit);
    if (ret_norm)
        *ret_norm = (float)norm;
    return unit->ctx->failure.sticky.code;
}

int wk_clip_grad_value(struct wk_model *model, float max_value)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_clip_grad_value");
    if (context_idle(unit->ctx))
        return unit->ctx->failure.sticky.code;
    if (!(max_value > 0))
        return context_misuse_text(unit->ctx, WK_EINVAL,
                                   "wk_clip_grad_value needs a limit above 0");
    if (finish_sums(unit))
        (void)clamp(unit, (double)max_value);
    return unit->ctx->failure.sticky.code;
}

/* Apply the step to this rank's part, if its sums allow it. Then wait for what became of it: the
 * only wait of a step. */
static int update(struct unit *unit, struct sums_result *ret, struct error *err)
{
    struct wk_context *ctx = unit->ctx;
    profile_begin(&ctx->reports.profile, PROFILE_OPTIMIZER);
    save_hold(ctx, unit->model->queue);
    int rc = strategy_update(&unit->strategy, unit->optimizer, err);
    if (!rc)
        rc = sums_result(unit, ret, err);
    if (!rc)
        save_copied(ctx);
    profile_end(&ctx->reports.profile);
    return rc;
}

/* Send the other ranks what they need of it. */
static int spread(struct unit *unit, struct error *err)
{
    struct wk_context *ctx = unit->ctx;
    profile_begin(&ctx->reports.profile, PROFILE_EXPOSED);
    int rc = strategy_spread(&unit->strategy, ctx->group.comm, err);
    profile_end(&ctx->reports.profile);
    return rc;
}

/* What the program and the logs get of the window. */
static void show_numbers(struct unit *unit, const struct sums_result *result)
{
    unit->last = (struct wk_step_numbers){window_loss(unit), result->norm, result->finite, false};
    unit->norm = unit->sums.clipped ? result->norm : unit->norm;
}

/* The state already contains the window, or no rank contributed to it: it is left out. */
static int leave_out(struct unit *unit, bool again)
{
    struct wk_context *ctx = unit->ctx;
    struct sums_result result;
    struct error err = {0};
    int rc = again ? sums_result(unit, &result, &err) : 0;
    if (rc)
        return context_pass_failed(ctx, rc, &err);
    if (again) {
        result.finite = true;
        show_numbers(unit, &result);
    }
    unit->stepped = again;
    window_close(unit, WINDOW_AGAIN);
    return ctx->failure.sticky.code;
}

/* The window's sums are complete and clipped. */
static int step(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    struct error err = {0};
    ctx->step.skipped = false;
    bool again = window_was_taken(unit);
    bool has_data = unit->weights > 0 || unit->counts.batches || unit->on_dealt;
    if (again || (ctx->step.ends && !has_data))
        return leave_out(unit, again);
    struct sums_result result;
    int rc = sums_judge(unit);
    if (rc)
        return context_break(ctx, rc);
    rc = update(unit, &result, &err);
    if (rc) {
        if (context_mendable(rc)) /* its sums never ended: the update changed nothing */
            optimizer_take_back(unit->optimizer);
        else
            ctx->cut.torn = ctx->cut.is_sharded;
        return context_pass_failed(ctx, rc, &err);
    }
    show_numbers(unit, &result);
    rc = mixed_judge(unit, result.finite, &ctx->step.skipped, &err);
    unit->last.skipped = ctx->step.skipped;
    if (rc || ctx->step.skipped)
        optimizer_take_back(unit->optimizer);
    if (rc)
        return rc == WK_EOVERFLOW ? context_fail(ctx, &err) : context_break(ctx, rc);
    /* This rank's part now contains the step. It counts even if the others cannot get it: the next
     * generation continues from it if every part of the model contains it. */
    rc = ctx->step.skipped ? 0 : spread(unit, &err);
    unit->stepped = !ctx->step.skipped;
    window_close(unit, ctx->step.skipped ? WINDOW_SKIPPED : WINDOW_TAKEN);
    if (!rc && !ctx->step.skipped && ctx->step.phase == STEP_UNDER_WAY &&
        model_is_custom(unit->model))
        unit_gather_own(unit); /* for other models' passes of this step */
    else
        custom_show_bound(unit->model);
    return rc ? context_pass_failed(ctx, rc, &err) : ctx->failure.sticky.code;
}

int wk_step(struct wk_optimizer *optimizer)
{
    struct unit *unit = unit_of_optimizer(optimizer);
    if (!unit)
        return unit_missing(optimizer, WK_OBJECT_OPTIMIZER, "wk_step");
    struct wk_context *ctx = unit->ctx;
    unit->stepped = false;
    for (int i = 0; i < ctx->prepared.n_schedulers; i++)
        if (ctx->prepared.schedulers[i]->optimizer == optimizer)
            ctx->step.scheduler_due[i] = false;
    if (context_trains(ctx) && unit->micro == 0)
        return context_misuse_text(
            ctx, WK_ESTATE,
            "wk_step without wk_backward: there are no gradients since the last step");
    if (!finish_sums(unit))
        return ctx->failure.sticky.code;
    double limit = settings_number(&ctx->settings, SETTING_CLIP_GRAD_NORM);
    if (!unit->sums.clipped && limit > 0 && !clip(unit, limit))
        return ctx->failure.sticky.code;
    return step(unit);
}

int wk_update(struct wk_optimizer *optimizer, double loss)
{
    struct unit *unit = unit_of_optimizer(optimizer);
    if (!unit)
        return unit_missing(optimizer, WK_OBJECT_OPTIMIZER, "wk_update");
    if (!model_is_custom(unit->model))
        return context_misuse_text(
            unit->ctx, WK_EINVAL,
            "wk_update of a model with passes of libworker's: wk_backward and wk_step");
    (void)wk_set_loss(unit->model, loss);
    (void)wk_backward(unit->model);
    return wk_step(optimizer);
}

int wk_step_numbers(const struct wk_optimizer *optimizer, struct wk_step_numbers *ret)
{
    const struct unit *unit = unit_of_optimizer(optimizer);
    if (!unit)
        return unit_missing(optimizer, WK_OBJECT_OPTIMIZER, "wk_step_numbers");
    *ret = unit->last;
    return 0;
}

bool wk_step_taken(const struct wk_optimizer *optimizer)
{
    const struct unit *unit = unit_of_optimizer(optimizer);
    return unit && unit->stepped;
}

int wk_scheduler_step(struct wk_scheduler *scheduler)
{
    struct unit *unit = scheduler ? unit_of_optimizer(scheduler->optimizer) : NULL;
    if (!unit)
        return unit_missing(scheduler, WK_OBJECT_SCHEDULER, "wk_scheduler_step");
    struct wk_context *ctx = unit->ctx;
    for (int i = 0; i < ctx->prepared.n_schedulers; i++) {
        if (ctx->prepared.schedulers[i] != scheduler)
            continue;
        /* Also in a broken generation: its step is part of the state. */
        if (ctx->step.scheduler_due[i])
            scheduler_advance(scheduler);
        ctx->step.scheduler_due[i] = false;
        return ctx->failure.sticky.code;
    }
    return context_misuse_text(ctx, WK_ESTATE,
                               "wk_scheduler_step of a scheduler that wk_prepare was not given");
}
