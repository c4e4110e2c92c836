/* The passes of a training step, in the order a step calls them, and what applies to them
 * (worker/worker.h). */
#include "libworker/nn/outputs.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/blocks.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/counts.h"
#include "libworker/step/gather.h"

/* The loader that dealt the batch, or NULL. */
static const struct wk_loader *dealer_of(const struct wk_context *ctx, const struct wk_batch *batch)
{
    for (int i = 0; i < ctx->prepared.n_loaders; i++)
        if (loader_dealt(ctx->prepared.loaders[i], batch))
            return ctx->prepared.loaders[i];
    return NULL;
}

/* A forward pass, or with `outputs` an evaluation, of a batch that `dealer` dealt. ret_loss NULL:
 * the loss is not asked for. */
static void run_forward(struct unit *unit, const struct wk_batch *batch,
                        const struct wk_loader *dealer, const struct wk_outputs *outputs,
                        double *ret_loss)
{
    struct wk_context *ctx = unit->ctx;
    struct error err = {0};
    unit->model->divisors = counts_of(unit, dealer);
    profile_begin(&ctx->reports.profile, PROFILE_FORWARD);
    strategy_use(&unit->strategy, ctx->group.comm);
    int rc = outputs ? model_evaluate(unit->model, batch, ret_loss, outputs, &err)
                     : model_forward(unit->model, batch, ret_loss, &err);
    if (!rc && ret_loss)
        rc = strategy_check_pass(&unit->strategy, &err);
    profile_end(&ctx->reports.profile);
    (void)context_pass_failed(ctx, rc, &err);
}

/* A loss that is not asked for stays on the device: nothing waits for it. */
static void forward(struct unit *unit, const struct wk_batch *batch, double *ret_loss)
{
    const struct wk_loader *dealer = dealer_of(unit->ctx, batch);
    run_forward(unit, batch, dealer, NULL, ret_loss);
    unit->pass_loss = ret_loss ? *ret_loss : 0;
    unit->keeps_loss = !ret_loss && !context_idle(unit->ctx);
    if (unit->keeps_loss)
        sums_keep_loss(unit);
    unit->has_loss = true;
    unit->on_dealt = dealer || unit->counts.left > 0;
}

int wk_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss)
{
    struct unit *unit = unit_of_model(model);
    double loss = 0;
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_forward");
    struct wk_context *ctx = unit->ctx;
    if (!batch)
        return context_misuse_text(ctx, WK_EINVAL, "wk_forward was given no batch");
    if (!context_idle(ctx))
        forward(unit, batch, ret_loss ? &loss : NULL);
    if (ret_loss)
        *ret_loss = loss;
    return ctx->failure.sticky.code;
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
        return context_misuse_text(ctx, WK_EINVAL, "wk_evaluate was given no batch");
    outputs = outputs ? outputs : &none;
    if (!ctx->failure.sticky.code)
        outputs_clear(model, batch, outputs);
    if (!context_idle(ctx))
        run_forward(unit, batch, dealer_of(ctx, batch), outputs, &loss);
    if (ret_loss)
        *ret_loss = loss;
    return ctx->failure.sticky.code;
}

/* A batch of no samples may lack everything. */
static int check_batches(const struct unit *unit, const struct wk_batch *batches, int n,
                         struct error *err)
{
    if (!unit->model->ops->count)
        return error_set(err, WK_EINVAL,
                         "wk_count_batches of a model whose passes are the program's own");
    if (!batches || n < 1)
        return error_set(err, WK_EINVAL, "wk_count_batches was given no batches");
    if (unit->micro > 0)
        return error_set(err, WK_ESTATE,
                         "wk_count_batches inside a window: call it before the first wk_forward of "
                         "the window, with all its batches");
    int rc = 0;
    for (int i = 0; i < n && !rc; i++)
        rc = model_check(unit->model, &batches[i], true, err);
    return rc;
}

int wk_count_batches(struct wk_model *model, const struct wk_batch *batches, int n)
{
    struct unit *unit = unit_of_model(model);
    struct error err = {0};
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_count_batches");
    struct wk_context *ctx = unit->ctx;
    if (!context_trains(ctx))
        return ctx->failure.sticky.code;
    if (check_batches(unit, batches, n, &err))
        return context_misuse(ctx, &err);
    return context_result(ctx, counts_own(unit, batches, n));
}

int wk_set_loss(struct wk_model *model, double loss)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_set_loss");
    if (!context_idle(unit->ctx) && sums_begun(&unit->sums) && !unit->begun)
        return context_misuse_text(
            unit->ctx, WK_ESTATE,
            "wk_set_loss after the last wk_backward of a window, with which its loss went "
            "to the other ranks: call it before wk_backward; that of the next pass after "
            "wk_step");
    unit->pass_loss = loss;
    unit->has_loss = true;
    unit->keeps_loss = false;
    return unit->ctx->failure.sticky.code;
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
    custom_go(model, (struct custom_place){.block = -1, .whole = true});
    custom_show_bound(model);
    return rc;
}

int wk_no_sync(struct wk_model *model, bool on)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_no_sync");
    unit->no_sync = on;
    return unit->ctx->failure.sticky.code;
}

int wk_set_gradient_hook(struct wk_model *model, const struct wk_gradient_hook *hook)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_set_gradient_hook");
    struct wk_context *ctx = unit->ctx;
    if (ctx->step.phase == STEP_UNDER_WAY)
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
    if (index < 0 || index >= model_trained(model))
        return context_refuse(unit->ctx, WK_EINVAL,
                              "wk_grad_ready of parameter %d: the model's are 0 to %d", index,
                              model_trained(model) - 1);
    if (!context_trains(unit->ctx) || custom_by_block(model))
        return unit->ctx->failure.sticky.code;
    if (!unit->begun && window_begin_pass(unit))
        return unit->ctx->failure.sticky.code;
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
    if (!context_trains(ctx) || (!unit->begun && window_begin_pass(unit))) {
        unit_blocks_forget(unit);
        return ctx->failure.sticky.code;
    }
    unit->begun = false;
    profile_begin(&ctx->reports.profile, PROFILE_BACKWARD);
    int rc = model_is_custom(model) ? unit_blocks_end(unit, &err)
                                    : model_backward(model, mixed_scale(unit), &err);
    profile_end(&ctx->reports.profile);
    if (context_pass_failed(ctx, rc, &err) || ctx->step.phase == STEP_BROKEN) {
        strategy_drain(&unit->strategy);
        return ctx->failure.sticky.code;
    }
    rc = window_end_pass(unit, &err);
    if (rc)
        return context_pass_failed(ctx, rc, &err);
    strategy_flush(&unit->strategy);
    unit->micro++;
    /* Sharded gradients leave their buckets before the next pass fills them. */
    if (!sums_begun(&unit->sums) && (rc = strategy_finish(&unit->strategy, &err)) != 0)
        return context_pass_failed(ctx, rc, &err);
    return 0;
}
