/* The training loop's verbs (worker/worker.h), in the order a step calls them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/optim/clip.h"
#include "libworker/parallel/custom.h"
#include "libworker/step/context.h"
#include "libworker/step/prepare.h"

enum { METRIC_NAME_MAX = 63 };

static int fail(struct wk_context *ctx, int code, const char *text)
{
    struct error err = {0};
    (void)error_set(&err, code, "%s", text);
    return context_fail(ctx, &err);
}

/* Calls do nothing after an error, and from a lost peer to the next wk_next. */
static bool idle(const struct wk_context *ctx)
{
    return ctx->error.code || ctx->phase == STEP_BROKEN;
}

bool wk_next(struct wk_loader *loader, struct wk_batch *ret_batch)
{
    struct wk_context *ctx = loader ? loader->owner : NULL;
    if (!ctx && loader && loader->maker)
        (void)fail(loader->maker, WK_ESTATE, "wk_next of a loader that wk_prepare was not given");
    if (!ctx)
        return false;
    if (!ret_batch) {
        (void)fail(ctx, WK_EINVAL, "wk_next was given no batch to fill");
        return false;
    }
    bool training = !loader->options.evaluation;
    if (training ? !boundary_pass(ctx, loader) : idle(ctx) || !boundary_evaluates(ctx))
        return false;
    struct error err = {0};
    struct loader_place place = {ctx->rank, ctx->world};
    profile_begin(&ctx->profile, PROFILE_DATA);
    int rc = loader_next(loader, &place, ret_batch, &err);
    profile_end(&ctx->profile);
    if (rc < 0)
        (void)context_fail(ctx, &err);
    if (rc <= 0)
        return false;
    if (training) {
        if (ctx->micro == 0) {
            int64_t left = 1 + loader->batches_after;
            int64_t wanted = settings_integer(&ctx->settings, SETTING_ACCUMULATION);
            ctx->window = (int)(left < wanted ? left : wanted);
        }
        if (ctx->phase != STEP_REDUCING)
            ctx->phase = STEP_FILLING;
        ctx->window_tokens += ret_batch->denominator;
    }
    /* The program's own passes read parameters whenever they like. */
    if (model_is_custom(ctx->model))
        (void)wk_gather_parameters(ctx->model);
    return true;
}

/* A pass ended with `rc`: gathers of blocks fail as any collective does. */
static int pass_failed(struct wk_context *ctx, int rc, const struct error *err)
{
    if (!rc)
        return 0;
    return context_mendable(rc) ? context_break(ctx, rc) : context_fail(ctx, err);
}

int wk_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    double loss = 0;
    if (!ctx)
        return prepare_missing(model);
    if (!batch)
        return fail(ctx, WK_EINVAL, "wk_forward was given no batch");
    if (!idle(ctx)) {
        struct error err = {0};
        profile_begin(&ctx->profile, PROFILE_FORWARD);
        strategy_use(&ctx->strategy, ctx->comm);
        int rc = model_forward(model, batch, &loss, &err);
        if (!rc && batch->samples == 0)
            rc = strategy_empty_pass(&ctx->strategy, MODEL_FORWARD, &err);
        profile_end(&ctx->profile);
        (void)pass_failed(ctx, rc, &err);
        ctx->pass_loss = loss;
    }
    if (ret_loss)
        *ret_loss = loss;
    return ctx->error.code;
}

int wk_set_loss(struct wk_model *model, double loss)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    if (!ctx)
        return prepare_missing(model);
    ctx->pass_loss = loss;
    return ctx->error.code;
}

int wk_gather_parameters(struct wk_model *model)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    if (!ctx)
        return prepare_missing(model);
    int rc = idle(ctx) || !ctx->comm ? 0 : strategy_gather(&ctx->strategy, ctx->comm);
    return rc ? context_break(ctx, rc) : ctx->error.code;
}

int wk_no_sync(struct wk_model *model, bool on)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    if (!ctx)
        return prepare_missing(model);
    ctx->no_sync = on;
    return ctx->error.code;
}

int wk_set_gradient_hook(struct wk_model *model, const struct wk_gradient_hook *hook)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    if (!ctx)
        return prepare_missing(model);
    if (ctx->phase != STEP_BOUNDARY && ctx->phase != STEP_BROKEN)
        return WK_ESTATE;
    return strategy_set_hook(&ctx->strategy, hook);
}

/* What this rank says to the others with the window's sums. */
static void fill_extras(struct wk_context *ctx)
{
    float *extras = ctx->strategy.extras;
    if (!ctx->strategy.is_sharded)
        return;
    extras[EXTRA_STOP] = boundary_stopping(ctx);
    extras[EXTRA_LEAVE] = boundary_behind(ctx);
    save_announce(ctx, extras);
}

/* A backward pass begins: whether it is the window's last decides if its gradients are summed. */
static int begin_pass(struct wk_context *ctx)
{
    if (ctx->phase == STEP_REDUCING)
        return fail(ctx, WK_ESTATE,
                    "wk_backward, but the gradients of this step are on their way to the other "
                    "ranks already: wk_step comes first, or a larger gradient_accumulation_steps");
    if (ctx->window < 1)
        ctx->window = (int)settings_integer(&ctx->settings, SETTING_ACCUMULATION);
    ctx->strategy.extras[EXTRA_LOSS] += (float)ctx->pass_loss;
    ctx->pass_loss = 0;
    bool last = ctx->micro + 1 >= ctx->window && !ctx->no_sync;
    if (last) {
        ctx->phase = STEP_REDUCING;
        fill_extras(ctx);
    }
    strategy_begin(&ctx->strategy, ctx->comm, last);
    return 0;
}

void step_grad_ready(void *arg, int index)
{
    strategy_ready(&((struct wk_context *)arg)->strategy, index);
}

int wk_grad_ready(struct wk_model *model, int index)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    if (!ctx)
        return prepare_missing(model);
    if (index < 0 || index >= model->n_params)
        return WK_EINVAL;
    if (idle(ctx))
        return ctx->error.code;
    if (!ctx->custom_begun && begin_pass(ctx))
        return ctx->error.code;
    ctx->custom_begun = true;
    strategy_ready(&ctx->strategy, index);
    return 0;
}

int wk_backward(struct wk_model *model)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    struct error err = {0};
    if (!ctx)
        return prepare_missing(model);
    if (idle(ctx))
        return ctx->error.code;
    if (!ctx->custom_begun && begin_pass(ctx))
        return ctx->error.code;
    ctx->custom_begun = false;
    bool empty = !model_is_custom(model) && model->batch.samples == 0;
    profile_begin(&ctx->profile, PROFILE_BACKWARD);
    int rc = model_is_custom(model) ? 0 : model_backward(model, mixed_scale(ctx), &err);
    if (!rc && empty)
        rc = strategy_empty_pass(&ctx->strategy, MODEL_BACKWARD, &err);
    profile_end(&ctx->profile);
    if (pass_failed(ctx, rc, &err) || ctx->phase == STEP_BROKEN) {
        strategy_drain(&ctx->strategy);
        return ctx->error.code;
    }
    strategy_flush(&ctx->strategy);
    ctx->micro++;
    /* Sharded gradients leave their buckets before the next pass fills them. */
    if (ctx->phase != STEP_REDUCING && (rc = strategy_finish(&ctx->strategy, &err)) != 0)
        return pass_failed(ctx, rc, &err);
    return 0;
}

static bool at_window_end(const struct wk_context *ctx)
{
    return ctx->micro > 0 && ctx->micro >= ctx->window && !ctx->no_sync;
}

/* What the window's sum is a mean over: its passes, or what the ranks said their parts weigh. */
static double window_weight(const struct wk_context *ctx)
{
    return ctx->weights > 0 ? ctx->weights : ctx->micro;
}

/* Limit each element, which is still multiplied by what wk_step takes off. */
static void clamp(struct wk_context *ctx, double max_value)
{
    if (max_value > 0)
        strategy_clamp(&ctx->strategy, (float)(max_value / ctx->grad_scale));
}

/* Wait for the sums. false: the step in flight is gone, or the error is sticky. */
static bool finish_sums(struct wk_context *ctx)
{
    if (idle(ctx))
        return false;
    if (ctx->reduced)
        return true;
    profile_begin(&ctx->profile, PROFILE_EXPOSED);
    struct error err = {0};
    int rc = strategy_finish(&ctx->strategy, &err);
    profile_end(&ctx->profile);
    if (rc) {
        (void)pass_failed(ctx, rc, &err);
        return false;
    }
    ctx->reduced = true;
    ctx->grad_scale = 1.0 / (window_weight(ctx) * mixed_scale(ctx));
    clamp(ctx, settings_number(&ctx->settings, SETTING_CLIP_GRAD_VALUE));
    return true;
}

/* The norm as wk_step would apply the gradient without clipping, then clipping by it; max_norm 0
 * only measures. false: the step in flight is gone. */
static bool clip(struct wk_context *ctx, double max_norm)
{
    double squares;
    int rc = strategy_squares(&ctx->strategy, &squares);
    if (rc) {
        (void)context_break(ctx, rc);
        return false;
    }
    ctx->norm = sqrt(squares) * ctx->grad_scale;
    ctx->clipped = true;
    if (max_norm > 0)
        ctx->grad_scale *= clip_factor(ctx->norm, max_norm);
    return true;
}

int wk_clip_grad_norm(struct wk_model *model, float max_norm, float *ret_norm)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    if (!ctx)
        return prepare_missing(model);
    double norm = 0;
    if (at_window_end(ctx) && finish_sums(ctx) && clip(ctx, (double)max_norm))
        norm = ctx->norm;
    if (ret_norm)
        *ret_norm = (float)norm;
    return ctx->error.code;
}

int wk_clip_grad_value(struct wk_model *model, float max_value)
{
    struct wk_context *ctx = prepare_context_of_model(model);
    if (!ctx)
        return prepare_missing(model);
    if (idle(ctx))
        return ctx->error.code;
    if (!(max_value > 0))
        return fail(ctx, WK_EINVAL, "wk_clip_grad_value needs a limit above 0");
    if (at_window_end(ctx) && finish_sums(ctx))
        clamp(ctx, (double)max_value);
    return ctx->error.code;
}

/* The window is over: what it used of the data and what the ranks agreed on becomes the state. */
static void close_window(struct wk_context *ctx)
{
    const float *extras = ctx->strategy.extras;
    ctx->agreed_stop = extras[EXTRA_STOP] > 0;
    ctx->agreed_leave = extras[EXTRA_LEAVE] > 0;
    /* What was to be saved is the step after, which a skipped one does not reach: then it is the
     * next one that does. */
    ctx->save_asked = ctx->save_asked || (ctx->skipped && ctx->rank == 0 && extras[EXTRA_SAVE] > 0);
    ctx->agreed_save = !ctx->skipped && extras[EXTRA_SAVE] > 0 && extras[EXTRA_BUSY] == 0;
    ctx->ticket = (uint32_t)extras[EXTRA_TICKET];
    profile_step(&ctx->profile, ctx->numbers.step + 1);
    ctx->numbers.rng = ctx->rng;
    for (int i = 0; i < ctx->n_loaders; i++)
        ctx->loaders[i]->committed = ctx->loaders[i]->cursor;
    strategy_clear(&ctx->strategy);
    ctx->micro = ctx->window = 0;
    ctx->weights = 0;
    ctx->reduced = ctx->clipped = false;
    ctx->grad_scale = 1;
    ctx->phase = STEP_BOUNDARY;
}

/* Everything of the step in flight becomes the state. */
static void commit(struct wk_context *ctx)
{
    ctx->loss = (double)ctx->strategy.extras[EXTRA_LOSS] / window_weight(ctx);
    ctx->numbers.step++;
    for (int i = 0; i < ctx->n_schedulers; i++)
        ctx->scheduler_due[i] = true;
    close_window(ctx);
}

static void log_one(struct wk_context *ctx, const char *name, double value)
{
    if (ctx->rank != 0)
        return;
    if (ctx->session)
        ctx->session->ops->metric(ctx->session, ctx->numbers.step, name, value);
    if (track_metric(&ctx->track, ctx->numbers.step, name, value) && !ctx->track_failed) {
        ctx->track_failed = true;
        context_notice(ctx, "log_file cannot be written any more");
    }
}

/* Seconds per step by phase, of this rank. */
static void report_profile(struct wk_context *ctx)
{
    struct profile_means means;
    profile_take(&ctx->profile, &means);
    for (int i = 0; i < PROFILE_COUNT; i++) {
        char name[METRIC_NAME_MAX + 1];
        (void)str_printf(name, sizeof(name), "profile/%s", profile_name((enum profile_phase)i));
        log_one(ctx, name, means.phase[i]);
    }
    log_one(ctx, "profile/other", means.other);
    log_one(ctx, "profile/step", means.step);
}

static void report(struct wk_context *ctx, double tokens)
{
    if (ctx->session)
        ctx->session->ops->progress(ctx->session, ctx->numbers.step, ctx->numbers.total_steps);
    if (ctx->rank != 0)
        return;
    struct track_step step = {
        .step = ctx->numbers.step,
        .total_steps = ctx->numbers.total_steps,
        .loss = ctx->loss,
        .rate = wk_optimizer_rate(ctx->optimizer),
        .tokens = tokens,
        .now_ms = context_now_ms(),
    };
    log_one(ctx, "loss", ctx->loss);
    double rate = track_progress(&ctx->track, &step);
    if (rate >= 0) {
        log_one(ctx, "tokens_per_second", rate);
        log_one(ctx, "learning_rate", step.rate);
        if (ctx->scales) {
            log_one(ctx, "loss_scale", ctx->scaler.scale);
            log_one(ctx, "skipped_steps", (double)ctx->scaler.skipped);
        }
        if (ctx->norm > 0)
            log_one(ctx, "grad_norm", ctx->norm);
        report_profile(ctx);
    }
    ctx->norm = 0;
}

/* Parameters and optimizer state take the step, on all ranks that hold parts of them. */
static int update(struct wk_context *ctx, struct wk_optimizer *optimizer, struct error *err)
{
    profile_begin(&ctx->profile, PROFILE_OPTIMIZER);
    int rc = strategy_update(&ctx->strategy, optimizer, ctx->grad_scale, err);
    profile_end(&ctx->profile);
    if (rc)
        return rc;
    profile_begin(&ctx->profile, PROFILE_EXPOSED);
    rc = strategy_spread(&ctx->strategy, ctx->comm, err);
    profile_end(&ctx->profile);
    return rc;
}

int wk_step(struct wk_optimizer *optimizer)
{
    struct wk_context *ctx = prepare_context_of_optimizer(optimizer);
    if (!ctx)
        return prepare_missing(optimizer);
    for (int i = 0; i < ctx->n_schedulers; i++)
        ctx->scheduler_due[i] = false;
    if (!idle(ctx) && ctx->micro == 0)
        return fail(ctx, WK_ESTATE,
                    "wk_step without wk_backward: no gradients came since the last step");
    if (!at_window_end(ctx) || !finish_sums(ctx))
        return ctx->error.code;
    double limit = settings_number(&ctx->settings, SETTING_CLIP_GRAD_NORM);
    if (!ctx->clipped && limit > 0 && !clip(ctx, limit))
        return ctx->error.code;
    struct error err = {0};
    double tokens = ctx->window_tokens;
    if (mixed_judge(ctx, &ctx->skipped, &err))
        return context_fail(ctx, &err);
    if (ctx->skipped) {
        close_window(ctx);
        return 0;
    }
    int rc = update(ctx, optimizer, &err);
    if (rc) {
        ctx->torn = ctx->strategy.is_sharded;
        return context_mendable(rc) ? context_break(ctx, rc) : context_fail(ctx, &err);
    }
    ctx->window_tokens = 0;
    commit(ctx);
    report(ctx, tokens);
    return 0;
}
int wk_scheduler_step(struct wk_scheduler *scheduler)
{
    struct wk_context *ctx = scheduler ? prepare_context_of_optimizer(scheduler->optimizer) : NULL;
    if (!ctx)
        return prepare_missing(scheduler);
    for (int i = 0; i < ctx->n_schedulers; i++) {
        if (ctx->schedulers[i] != scheduler)
            continue;
        /* Also in a broken generation: the step it belongs to is part of the state. */
        if (ctx->scheduler_due[i])
            scheduler_advance(scheduler);
        ctx->scheduler_due[i] = false;
        return ctx->error.code;
    }
    return fail(ctx, WK_ESTATE, "wk_scheduler_step of a scheduler that wk_prepare was not given");
}

int64_t wk_steps(const struct wk_context *ctx)
{
    return ctx->numbers.step;
}

int64_t wk_total_steps(const struct wk_context *ctx)
{
    return ctx->numbers.total_steps;
}

double wk_loss(const struct wk_context *ctx)
{
    return ctx->loss;
}

int wk_log(struct wk_context *ctx, const char *name, double value)
{
    if (ctx->error.code)
        return ctx->error.code;
    size_t size = strlen(name);
    if (size < 1 || size > METRIC_NAME_MAX ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_./-") != size)
        return fail(ctx, WK_EINVAL, "a metric's name has 1 to 63 of a-z 0-9 _ . / -");
    if (!idle(ctx))
        log_one(ctx, name, value);
    return 0;
}

int wk_reduce_value(struct wk_context *ctx, double *value, enum wk_op op)
{
    if (idle(ctx))
        return ctx->error.code;
    double sum = *value;
    int rc = wk_all_reduce(ctx->comm, &sum, 1, WK_F64, op, NULL);
    if (rc)
        return context_break(ctx, rc);
    *value = sum;
    return 0;
}

double wk_random(struct wk_context *ctx)
{
    return rng_double(&ctx->rng);
}
