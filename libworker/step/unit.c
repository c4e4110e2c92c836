#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"

#include "libworker/parallel/custom.h"
#include "libworker/step/context.h"

struct unit *unit_of_model(const struct wk_model *model)
{
    return model ? model->unit : NULL;
}

const char *unit_kind_name(enum wk_object_kind kind)
{
    switch (kind) {
    case WK_OBJECT_MODEL:
        return "a model";
    case WK_OBJECT_OPTIMIZER:
        return "an optimizer";
    case WK_OBJECT_LOADER:
        return "a loader";
    case WK_OBJECT_SCHEDULER:
        return "a scheduler";
    }
    return "an object";
}

void unit_why_null(enum wk_object_kind kind, struct error *err)
{
    const char *why = (unsigned)kind < ERROR_KINDS ? error_kept_of((int)kind) : "";
    size_t used = strlen(err->text);
    if (*why)
        (void)str_printf(err->text + used, sizeof(err->text) - used, ": %s", why);
}

int unit_missing(const void *object, enum wk_object_kind kind, const char *call)
{
    struct error err = {0};
    if (object) {
        (void)error_set(&err, WK_ESTATE, "%s of %s that wk_prepare was not given", call,
                        unit_kind_name(kind));
    } else {
        (void)error_set(&err, WK_EINVAL, "%s of NULL instead of %s", call, unit_kind_name(kind));
        unit_why_null(kind, &err);
    }
    return error_keep(&err);
}

struct unit *unit_of_optimizer(const struct wk_optimizer *optimizer)
{
    return optimizer ? optimizer->unit : NULL;
}

int unit_number(const struct unit *unit)
{
    return (int)(unit - unit->ctx->units) + 1;
}

void unit_bind_model(struct unit *unit)
{
    unit->model->unit = unit;
    unit->model->ear = (struct error_ear){context_hear, unit->ctx};
}

void unit_bind_optimizer(struct unit *unit)
{
    if (!unit->optimizer || unit_of_optimizer(unit->optimizer))
        return;
    unit->optimizer->ear = (struct error_ear){context_hear, unit->ctx};
    unit->optimizer->unit = unit;
}

void unit_unbind(struct unit *unit)
{
    if (unit_of_optimizer(unit->optimizer) == unit) {
        unit->optimizer->unit = NULL;
        unit->optimizer->ear = (struct error_ear){0};
    }
    if (unit_of_model(unit->model) == unit) {
        unit->model->ear = (struct error_ear){0};
        unit->model->unit = NULL;
        if (unit->recomputes)
            wk_model_recompute(unit->model, false);
    }
}

void unit_clear(struct unit *unit)
{
    strategy_clear(&unit->strategy);
    unit->micro = 0;
    unit->summing = unit->reduced = unit->clipped = unit->begun = false;
    unit->grad_scale = 1;
    unit->weights = 0;
    unit->said = (struct consensus){0};
    unit->joined = 0; /* another window on the same data has the same weight */
}

struct unit *units_main(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        if (unit->optimizer)
            return unit;
    return ctx->n_units ? ctx->units : NULL;
}

bool units_open(const struct wk_context *ctx)
{
    const struct unit *unit;
    units_each(unit, ctx)
        if (unit->micro > 0)
            return true;
    return false;
}

struct units_count units_count(const struct wk_context *ctx)
{
    const struct unit *unit;
    struct units_count count = {0};
    units_each(unit, ctx) {
        count.taken += unit->optimizer ? unit->optimizer->steps : 0;
        count.windows += unit->scaler.skipped;
    }
    count.windows += count.taken;
    return count;
}

int units_meet(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx)
        rc = rc ? rc : strategy_meet(&unit->strategy, ctx->comm, err);
    return rc;
}

int units_regroup(struct wk_context *ctx, const struct layout *layout, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx)
        rc = rc ? rc : strategy_regroup(&unit->strategy, ctx->comm, layout, err);
    return rc;
}

int units_refresh(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx)
        rc = rc ? rc : strategy_refresh(&unit->strategy, ctx->comm);
    return rc ? error_set(err, rc, "%s", units_sentence(ctx)) : 0;
}

int units_fill(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx)
        if (!rc && strategy_unfilled(&unit->strategy))
            rc = strategy_fill(&unit->strategy, ctx->comm, err);
    return rc;
}

void units_leave(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        strategy_leave(&unit->strategy);
}

void units_drain(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        strategy_drain(&unit->strategy);
}

static bool can_gather(const struct wk_context *ctx)
{
    return ctx->comm && !ctx->error.code && !context_rests(ctx);
}

void unit_gather_own(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    int rc = can_gather(ctx) ? strategy_gather_own(&unit->strategy, ctx->comm) : 0;
    if (rc)
        (void)context_break(ctx, rc);
    custom_show_bound(unit->model);
}

int unit_gather_master(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    int rc = can_gather(ctx) ? strategy_gather(&unit->strategy, ctx->comm) : 0;
    return rc ? context_break(ctx, rc) : ctx->error.code;
}

void units_gather(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        if (model_is_custom(unit->model))
            unit_gather_own(unit);
}

void units_show_bound(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        custom_show_bound(unit->model);
}

void units_share(struct wk_context *ctx, double share)
{
    struct unit *unit;
    units_each(unit, ctx) {
        if (!unit->model->mean_of_share)
            continue;
        unit->share = share;
        /* Gradients that are being summed already have their weight. */
        strategy_share(&unit->strategy, share, unit->micro > 0 && !unit->summing);
    }
}

const char *units_sentence(const struct wk_context *ctx)
{
    const char *sentence = ctx->comm ? wk_comm_error(ctx->comm) : "no communicator";
    const struct unit *unit;
    units_each(unit, ctx)
        if (!*sentence)
            sentence = strategy_sentence(&unit->strategy);
    return sentence;
}
