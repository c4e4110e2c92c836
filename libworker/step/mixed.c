/* mixed_precision: narrow copies for the products, a loss scale in fp16, and the test whether a
 * window's sums can be applied. */
#include <math.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/parallel/custom.h"
#include "libworker/step/context.h"

static enum wk_dtype type_of(const char *precision)
{
    return strcmp(precision, "bf16") == 0   ? WK_BF16
           : strcmp(precision, "fp16") == 0 ? WK_F16
                                            : WK_F32;
}

void mixed_open(struct wk_context *ctx)
{
    const struct settings *settings = &ctx->settings;
    enum wk_dtype type = type_of(settings_text(settings, SETTING_MIXED_PRECISION));
    ctx->mixed.scales = type == WK_F16;
    ctx->mixed.narrowing = (struct narrowing){
        .kernels = kernel_cpu(),
        .type = type,
        .stochastic = settings_integer(settings, SETTING_STOCHASTIC_ROUNDING),
        .seed = (uint64_t)settings_integer(settings, SETTING_SEED),
        .grads = settings_integer(settings, SETTING_LOW_GRADIENTS),
    };
}

int mixed_open_unit(struct unit *unit, struct error *err)
{
    const struct settings *settings = &unit->ctx->settings;
    struct wk_scaler_options options = {
        .initial = settings_number(settings, SETTING_LOSS_SCALE_INITIAL),
        .growth = settings_number(settings, SETTING_LOSS_SCALE_GROWTH),
        .backoff = settings_number(settings, SETTING_LOSS_SCALE_BACKOFF),
        .interval = settings_integer(settings, SETTING_LOSS_SCALE_INTERVAL),
    };
    return unit->ctx->mixed.scales ? scaler_init(&unit->scaler, &options, err) : 0;
}

double mixed_scale(const struct unit *unit)
{
    return unit->ctx->mixed.scales ? unit->scaler.scale : 1;
}

/* Gradients are summed in place, so with several ranks the origin is unknown. */
static int refuse_gradient(struct unit *unit, double loss, struct error *err)
{
    const struct wk_context *ctx = unit->ctx;
    int index = -1;
    int rc = sums_first_nonfinite(unit, &index);
    if (rc)
        return rc;
    char of[128] = "";
    if (ctx->prepared.n_units > 1)
        (void)str_printf(of, sizeof(of), " of model %d", unit_number(unit));
    return error_set(
        err, WK_EOVERFLOW,
        "step %lld is not done: the gradient of %s%s%s%s is not finite, and the loss is %g; the "
        "parameters are those of the step before. If norms grew before, a lower rate, a longer "
        "warm-up or clip_grad_norm helps; else look at this batch, and at passes of the program's "
        "own",
        (long long)ctx->state.numbers.step + 1, index < 0 ? "some parameter" : "parameter ",
        index < 0 ? "" : unit->model->params[index].name, of,
        ctx->group.world > 1 ? ", summed over the ranks," : "", loss);
}

static int refuse_loss(const struct wk_context *ctx, double loss, struct error *err)
{
    return error_set(
        err, WK_EOVERFLOW,
        "step %lld is not done: the loss (%g) is not finite; the parameters are those of the step "
        "before. If it grew before, a lower rate, a longer warm-up or clip_grad_norm helps; else "
        "look at this batch",
        (long long)ctx->state.numbers.step + 1, loss);
}

int mixed_judge(struct unit *unit, bool finite, bool *ret_skip, struct error *err)
{
    const struct wk_context *ctx = unit->ctx;
    double loss = (double)unit->sums.heard.loss / unit->micro;
    *ret_skip = false;
    if (ctx->mixed.scales)
        return scaler_update(&unit->scaler, finite && isfinite(loss), ret_skip, err);
    if (!isfinite(loss))
        return refuse_loss(ctx, loss, err);
    return finite ? 0 : refuse_gradient(unit, loss, err);
}

void mixed_numbers(const struct unit *unit, struct unit_numbers *ret)
{
    ret->loss_scale = unit->ctx->mixed.scales ? unit->scaler.scale : 0;
    ret->clean_steps = unit->scaler.clean_steps;
    ret->skipped_steps = unit->scaler.skipped;
}

/* A run that continues in fp16 from a run without it begins with the settings' scale. */
void mixed_adopt(struct unit *unit, const struct unit_numbers *numbers)
{
    if (!unit->ctx->mixed.scales || !(numbers->loss_scale > 0))
        return;
    unit->scaler.scale = numbers->loss_scale;
    unit->scaler.clean_steps = numbers->clean_steps;
    unit->scaler.skipped = numbers->skipped_steps;
}

double wk_loss_scale(const struct wk_context *ctx)
{
    const struct unit *unit;
    double least = INFINITY;
    units_each(unit, ctx)
        if (unit->optimizer)
            least = fmin(least, mixed_scale(unit));
    return isfinite(least) ? least : 1;
}

double wk_backward_scale(const struct wk_model *model)
{
    const struct unit *unit = unit_of_model(model);
    bool carries = unit && model_is_custom(model) && custom_carries_scale(model);
    return carries ? mixed_scale(unit) : 1;
}

bool wk_step_skipped(const struct wk_context *ctx)
{
    return ctx->step.skipped;
}

int64_t wk_skipped_steps(const struct wk_context *ctx)
{
    const struct unit *unit;
    int64_t skipped = 0;
    units_each(unit, ctx)
        skipped += unit->scaler.skipped;
    return skipped;
}
