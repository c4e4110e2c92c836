/* The training loop's functions (worker/worker.h), in the order a step calls them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/name.h"
#include "common/base/str.h"
#include "libworker/nn/outputs.h"
#include "libworker/optim/clip.h"
#include "libworker/parallel/custom.h"
#include "libworker/step/context.h"

static int fail(struct wk_context *ctx, int code, const char *text)
{
    struct error err = {0};
    (void)error_set(&err, code, "%s", text);
    return context_misuse(ctx, &err);
}

/* Calls do nothing after an error, and from a lost peer to the next wk_next. */
static bool idle(const struct wk_context *ctx)
{
    return ctx->error.code || context_rests(ctx);
}

/* After wk_next or wk_join has ended there are no more steps; evaluations continue. */
static bool trains_not(const struct wk_context *ctx)
{
    return idle(ctx) || ctx->ended;
}

static int number_of(const struct wk_context *ctx, const struct wk_loader *loader)
{
    int number = 0;
    while (ctx->loaders[number] != loader)
        number++;
    return number;
}

/* A global batch for the step in progress. */
static void take_batch(struct wk_context *ctx, struct wk_loader *loader, struct wk_batch *batch)
{
    int number = number_of(ctx, loader);
    window_deal(ctx, number);
    if (ctx->window < 1) {
        int64_t left = 1 + loader->batches_after;
        int64_t wanted = settings_integer(&ctx->settings, SETTING_ACCUMULATION);
        ctx->window = (int)(left < wanted ? left : wanted);
    }
    if (settings_integer(&ctx->settings, SETTING_BY_TOKENS))
        batch->denominator =
            loader_weigh(loader, ctx->window, (ctx->dealt[number] - 1) % ctx->window == 0);
    ctx->window_tokens += batch->denominator;
    if (ctx->weighed)
        ctx->weight = 0;
    /* Passes under wk_join's weight keep that weight as their share. */
    if (!(ctx->weight > 0))
        units_share(ctx, (double)(batch->samples * batch->length) / batch->denominator);
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
        if (maker == loader->owned_by && !maker->n_units)
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
        (void)fail(ctx, WK_EINVAL, "wk_next was given no batch to fill");
        return false;
    }
    bool training = !loader->options.evaluation;
    if (training ? !boundary_pass(ctx, number_of(ctx, loader))
                 : idle(ctx) || !boundary_evaluates(ctx))
        return end_of(loader);
    struct error err = {0};
    struct loader_place place = {ctx->rank, ctx->world};
    int64_t cursor = loader->cursor;
    profile_begin(&ctx->profile, PROFILE_DATA);
    int rc = loader_next(loader, &place, ret_batch, &err);
    profile_end(&ctx->profile);
    if (rc < 0)
        (void)context_fail(ctx, &err);
    if (rc <= 0)
        return end_of(loader);
    if (context_rests(ctx))
        loader->cursor = cursor; /* this batch has no effect */
    else if (training)
        take_batch(ctx, loader, ret_batch);
    /* The program's own passes read parameters at any time. */
    units_gather(ctx);
    return true;
}

/* A pass ended with `rc`: gathers of blocks can fail like any collective. */
static int pass_failed(struct wk_context *ctx, int rc, const struct error *err)
{
    if (!rc)
        return 0;
    return context_mendable(rc) ? context_break(ctx, rc) : context_misuse(ctx, err);
}

static bool is_dealt(const struct wk_context *ctx, const struct wk_batch *batch)
{
    for (int i = 0; i < ctx->n_loaders; i++)
        if (loader_dealt(ctx->loaders[i], batch))
            return true;
    return false;
}

int wk_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss)
{
    struct unit *unit = unit_of_model(model);
    double loss = 0;
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_forward");
    struct wk_context *ctx = unit->ctx;
    if (!batch)
        return fail(ctx, WK_EINVAL, "wk_forward was given no batch");
    if (!idle(ctx)) {
        struct error err = {0};
        profile_begin(&ctx->profile, PROFILE_FORWARD);
        strategy_use(&unit->strategy, ctx->comm);
        int rc = model_forward(model, batch, &loss, &err);
        if (!rc && batch->samples == 0)
            rc = strategy_empty_pass(&unit->strategy, MODEL_FORWARD, &err);
        profile_end(&ctx->profile);
        (void)pass_failed(ctx, rc, &err);
        unit->pass_loss = loss;
        unit->has_loss = true;
        unit->on_dealt = is_dealt(ctx, batch);
    }
    if (ret_loss)
        *ret_loss = loss;
    return ctx->error.code;
}

int wk_evaluate(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                const struct wk_outputs *outputs)
{
    static const struct wk_outputs none;
    struct unit *unit = unit_of_model(model);
    double loss = 0;
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_evaluate");
    struct wk_context *ctx = unit->ctx;
    if (!batch)
        return fail(ctx, WK_EINVAL, "wk_evaluate was given no batch");
    outputs = outputs ? outputs : &none;
    if (!ctx->error.code)
        outputs_clear(model, batch, outputs);
    if (!idle(ctx)) {
        struct error err = {0};
        profile_begin(&ctx->profile, PROFILE_FORWARD);
        strategy_use(&unit->strategy, ctx->comm);
        int rc = model_evaluate(model, batch, &loss, outputs, &err);
        if (!rc && batch->samples == 0)
            rc = strategy_empty_pass(&unit->strategy, MODEL_FORWARD, &err);
        profile_end(&ctx->profile);
        (void)pass_failed(ctx, rc, &err);
    }
    if (ret_loss)
        *ret_loss = loss;
    return ctx->error.code;
}

int wk_set_loss(struct wk_model *model, double loss)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_set_loss");
    if (!idle(unit->ctx) && unit->summing && !unit->begun)
        return fail(unit->ctx, WK_ESTATE,
                    "wk_set_loss after the last wk_backward of a window, with which its loss went "
                    "to the other ranks: call it before wk_backward; that of the next pass after "
                    "wk_step");
    unit->pass_loss = loss;
    unit->has_loss = true;
    return unit->ctx->error.code;
}

int wk_bind_parameters(struct wk_model *model, float **data, float **grads)
{
    if (!model)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_bind_parameters");
    model->bound_data = data;
    model->bound_grads = grads;
    if (unit_of_model(model))
        custom_show_bound(model);
    return 0;
}

int wk_mean_of_share(struct wk_model *model, bool on)
{
    struct error err = {0};
    if (!model)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_mean_of_share");
    if (!model_is_custom(model))
        (void)error_set(&err, WK_EINVAL, "wk_mean_of_share of a model with libworker's own passes");
    else if (unit_of_model(model))
        (void)error_set(&err, WK_ESTATE, "wk_mean_of_share after wk_prepare: call it before");
    if (err.code)
        return error_tell(&model->ear, &err, true);
    model->mean_of_share = on;
    return 0;
}

int wk_gather_parameters(struct wk_model *model)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_gather_parameters");
    int rc = unit_gather_master(unit);
    strategy_show_master(&unit->strategy);
    custom_show_bound(model);
    return rc;
}

int wk_no_sync(struct wk_model *model, bool on)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_no_sync");
    unit->no_sync = on;
    return unit->ctx->error.code;
}

int wk_set_gradient_hook(struct wk_model *model, const struct wk_gradient_hook *hook)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_set_gradient_hook");
    struct wk_context *ctx = unit->ctx;
    if (ctx->phase == STEP_UNDER_WAY)
        return context_refuse(ctx, WK_ESTATE,
                              "wk_set_gradient_hook inside a step: call it between steps");
    if (strategy_set_hook(&unit->strategy, hook))
        return context_refuse(ctx, WK_EUNSUPPORTED, "strategy %s has no gradient hooks: ddp has",
                              settings_text(&ctx->settings, SETTING_STRATEGY));
    return 0;
}

int wk_grad_ready(struct wk_model *model, int index)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_grad_ready");
    if (index < 0 || index >= model->n_params)
        return context_refuse(unit->ctx, WK_EINVAL,
                              "wk_grad_ready of parameter %d: the model's are 0 to %d", index,
                              model->n_params - 1);
    if (trains_not(unit->ctx))
        return unit->ctx->error.code;
    if (!unit->begun && window_begin_pass(unit))
        return unit->ctx->error.code;
    unit->begun = true;
    strategy_ready(&unit->strategy, index);
    return 0;
}

int wk_backward(struct wk_model *model)
{
    struct unit *unit = unit_of_model(model);
    struct error err = {0};
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_backward");
    struct wk_context *ctx = unit->ctx;
    if (trains_not(ctx))
        return ctx->error.code;
    if (!unit->begun && window_begin_pass(unit))
        return ctx->error.code;
    unit->begun = false;
    bool empty = !model_is_custom(model) && model->batch.samples == 0;
    profile_begin(&ctx->profile, PROFILE_BACKWARD);
    int rc = model_is_custom(model) ? 0 : model_backward(model, mixed_scale(unit), &err);
    if (!rc && empty)
        rc = strategy_empty_pass(&unit->strategy, MODEL_BACKWARD, &err);
    profile_end(&ctx->profile);
    if (pass_failed(ctx, rc, &err) || ctx->phase == STEP_BROKEN) {
        strategy_drain(&unit->strategy);
        return ctx->error.code;
    }
    window_end_pass(unit);
    strategy_flush(&unit->strategy);
    unit->micro++;
    /* Sharded gradients leave their buckets before the next pass fills them. */
    if (!unit->summing && (rc = strategy_finish(&unit->strategy, &err)) != 0)
        return pass_failed(ctx, rc, &err);
    return 0;
}

/* Limit each element, which still has the factor that wk_step removes. false: the step in progress
 * is lost. */
static bool clamp(struct unit *unit, double max_value)
{
    int rc = strategy_clamp(&unit->strategy, (float)(max_value / unit->grad_scale));
    if (rc)
        (void)context_break(unit->ctx, rc);
    return !rc;
}

/* At a window's end, wait for its sums. false: not the end of a window, the step in progress is
 * lost, or the error is sticky. */
static bool finish_sums(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    if (idle(ctx) || !unit->summing || !unit->micro)
        return false;
    if (unit->reduced)
        return true;
    if (unit->begun) {
        (void)fail(ctx, WK_ESTATE,
                   "gradients of a pass were announced (wk_grad_ready), and it has not ended: call "
                   "wk_backward before their sums are used");
        return false;
    }
    profile_begin(&ctx->profile, PROFILE_EXPOSED);
    struct error err = {0};
    int rc = strategy_finish(&unit->strategy, &err);
    profile_end(&ctx->profile);
    if (rc) {
        (void)pass_failed(ctx, rc, &err);
        return false;
    }
    unit->reduced = true;
    unit->grad_scale = 1.0 / (window_weight(unit) * mixed_scale(unit));
    double limit = settings_number(&ctx->settings, SETTING_CLIP_GRAD_VALUE);
    return !(limit > 0) || clamp(unit, limit);
}

/* Compute the norm as wk_step would apply the gradient without clipping, then clip by it; max_norm
 * 0 only measures. false: the step in progress is lost. */
static bool clip(struct unit *unit, double max_norm)
{
    double squares;
    int rc = strategy_squares(&unit->strategy, &squares);
    if (rc) {
        (void)context_break(unit->ctx, rc);
        return false;
    }
    unit->norm = sqrt(squares) * unit->grad_scale;
    unit->clipped = true;
    if (max_norm > 0)
        unit->grad_scale *= clip_factor(unit->norm, max_norm);
    return true;
}

int wk_clip_grad_norm(struct wk_model *model, float max_norm, float *ret_norm)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_clip_grad_norm");
    double norm = 0;
    if (!(max_norm >= 0))
        (void)fail(unit->ctx, WK_EINVAL,
                   "wk_clip_grad_norm needs a limit above 0, or 0 only to measure");
    if (finish_sums(unit) && clip(unit, (double)max_norm))
        norm = unit->norm;
    if (ret_norm)
        *ret_norm = (float)norm;
    return unit->ctx->error.code;
}

int wk_clip_grad_value(struct wk_model *model, float max_value)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_clip_grad_value");
    if (idle(unit->ctx))
        return unit->ctx->error.code;
    if (!(max_value > 0))
        return fail(unit->ctx, WK_EINVAL, "wk_clip_grad_value needs a limit above 0");
    if (finish_sums(unit))
        (void)clamp(unit, (double)max_value);
    return unit->ctx->error.code;
}

/* Apply the step to the parameters and optimizer state of this rank's part. */
static int update(struct unit *unit, struct error *err)
{
    struct wk_context *ctx = unit->ctx;
    profile_begin(&ctx->profile, PROFILE_OPTIMIZER);
    int rc = strategy_update(&unit->strategy, unit->optimizer, unit->grad_scale, err);
    profile_end(&ctx->profile);
    return rc;
}

/* Send the other ranks what they need of it. */
static int spread(struct unit *unit, struct error *err)
{
    struct wk_context *ctx = unit->ctx;
    profile_begin(&ctx->profile, PROFILE_EXPOSED);
    int rc = strategy_spread(&unit->strategy, ctx->comm, err);
    profile_end(&ctx->profile);
    return rc;
}

/* The window's sums are complete and clipped. */
static int step(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    struct error err = {0};
    ctx->skipped = false;
    /* The state already contains it, or no rank contributed to it. */
    bool again = window_was_taken(unit);
    if (again || (ctx->ends && unit->weights == 0 && !unit->on_dealt)) {
        unit->stepped = again;
        window_close(unit, WINDOW_AGAIN);
        return ctx->error.code;
    }
    int rc = mixed_judge(unit, &ctx->skipped, &err);
    if (rc)
        return rc == WK_EOVERFLOW ? context_fail(ctx, &err) : context_break(ctx, rc);
    rc = ctx->skipped ? 0 : update(unit, &err);
    if (rc) {
        ctx->torn = ctx->is_sharded;
        return pass_failed(ctx, rc, &err);
    }
    /* This rank's part now contains the step. It counts even if the others cannot get it: the next
     * generation continues from it if every part of the model contains it. */
    rc = ctx->skipped ? 0 : spread(unit, &err);
    unit->stepped = !ctx->skipped;
    window_close(unit, ctx->skipped ? WINDOW_SKIPPED : WINDOW_TAKEN);
    if (!rc && !ctx->skipped && ctx->phase == STEP_UNDER_WAY && model_is_custom(unit->model))
        unit_gather_own(unit); /* for other models' passes of this step */
    else
        custom_show_bound(unit->model);
    return rc ? pass_failed(ctx, rc, &err) : ctx->error.code;
}

int wk_step(struct wk_optimizer *optimizer)
{
    struct unit *unit = unit_of_optimizer(optimizer);
    if (!unit)
        return unit_missing(optimizer, WK_OBJECT_OPTIMIZER, "wk_step");
    struct wk_context *ctx = unit->ctx;
    unit->stepped = false;
    for (int i = 0; i < ctx->n_schedulers; i++)
        if (ctx->schedulers[i]->optimizer == optimizer)
            ctx->scheduler_due[i] = false;
    if (!trains_not(ctx) && unit->micro == 0)
        return fail(ctx, WK_ESTATE,
                    "wk_step without wk_backward: there are no gradients since the last step");
    if (!finish_sums(unit))
        return ctx->error.code;
    double limit = settings_number(&ctx->settings, SETTING_CLIP_GRAD_NORM);
    if (!unit->clipped && limit > 0 && !clip(unit, limit))
        return ctx->error.code;
    return step(unit);
}

int wk_update(struct wk_optimizer *optimizer, double loss)
{
    struct unit *unit = unit_of_optimizer(optimizer);
    if (!unit)
        return unit_missing(optimizer, WK_OBJECT_OPTIMIZER, "wk_update");
    if (!model_is_custom(unit->model))
        return fail(unit->ctx, WK_EINVAL,
                    "wk_update of a model with passes of libworker's: wk_backward and wk_step");
    (void)wk_set_loss(unit->model, loss);
    (void)wk_backward(unit->model);
    return wk_step(optimizer);
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
    for (int i = 0; i < ctx->n_schedulers; i++) {
        if (ctx->schedulers[i] != scheduler)
            continue;
        /* Also in a broken generation: its step is part of the state. */
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
    const struct unit *unit = units_main((struct wk_context *)ctx);
    return unit ? unit->loss : (double)NAN;
}

double wk_model_loss(const struct wk_model *model)
{
    const struct unit *unit = unit_of_model(model);
    return unit ? unit->loss : (double)NAN;
}

/* A lost metric does not end the training. */
static int refuse_metric(struct wk_context *ctx, const char *name)
{
    (void)context_refuse(ctx, WK_EINVAL,
                         "\"%.100s\" is no metric's name, which has 1 to %d of a-z 0-9 _ . / -",
                         name, METRIC_NAME_MAX);
    if (!ctx->told_metric && ctx->rank == 0)
        context_notice(ctx, "wk_log: %s; it is left out", ctx->refused);
    ctx->told_metric = true;
    return WK_EINVAL;
}

int wk_log(struct wk_context *ctx, const char *name, double value)
{
    if (ctx->error.code)
        return ctx->error.code;
    size_t size = name ? strlen(name) : 0;
    if (size < 1 || size > METRIC_NAME_MAX ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_./-") != size)
        return refuse_metric(ctx, name ? name : "");
    if (!idle(ctx) && !ctx->cut_short)
        report_one(ctx, name, value);
    return 0;
}

int wk_reduce_value(struct wk_context *ctx, double *value, enum wk_op op)
{
    if (!value)
        return fail(ctx, WK_EINVAL, "wk_reduce_value was given no value");
    if (idle(ctx) || ctx->cut_short)
        return ctx->error.code;
    double sum = *value;
    int rc = wk_all_reduce(ctx->comm, &sum, 1, WK_F64, op, NULL);
    if (rc)
        return context_break(ctx, rc);
    *value = sum;
    return 0;
}

double wk_batch_mean(struct wk_context *ctx, const struct wk_batch *batch, double mean)
{
    if (!batch) {
        (void)fail(ctx, WK_EINVAL, "wk_batch_mean was given no batch");
        return mean;
    }
    double sum = batch->samples ? mean * (double)batch->samples : 0;
    if (idle(ctx) || ctx->cut_short || !batch->global_samples || wk_reduce_value(ctx, &sum, WK_SUM))
        return mean;
    return context_rests(ctx) ? mean : sum / (double)batch->global_samples;
}

double wk_random(struct wk_context *ctx)
{
    return rng_double(&ctx->rng);
}
