#include "libworker/step/prepared.h"

#include "libworker/parallel/custom.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/context.h"

int unit_number(const struct unit *unit)
{
    return (int)(unit - unit->ctx->prepared.units) + 1;
}

struct unit *units_main(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        if (unit->optimizer)
            return unit;
    return ctx->prepared.n_units ? ctx->prepared.units : NULL;
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
        rc = rc ? rc : strategy_meet(&unit->strategy, ctx->group.comm, err);
    return rc;
}

int units_regroup(struct wk_context *ctx, const struct layout *layout, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx)
        rc = rc ? rc : strategy_regroup(&unit->strategy, ctx->group.comm, layout, err);
    return rc;
}

int units_refresh(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx)
        rc = rc ? rc : strategy_refresh(&unit->strategy, ctx->group.comm);
    return rc ? error_set(err, rc, "%s", units_sentence(ctx)) : 0;
}

int units_fill(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx) {
        if (!rc && strategy_unfilled(&unit->strategy))
            rc = strategy_fill(&unit->strategy, ctx->group.comm, err);
        if (!rc)
            rc = buffers_reset(unit->model, true, err);
    }
    return rc;
}

void units_settle(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        strategy_settle(&unit->strategy);
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
        strategy_share(&unit->strategy, share, unit->micro > 0 && !sums_begun(&unit->sums));
    }
}

const char *units_sentence(const struct wk_context *ctx)
{
    const char *sentence = ctx->group.comm ? wk_comm_error(ctx->group.comm) : "no communicator";
    const struct unit *unit;
    units_each(unit, ctx)
        if (!*sentence)
            sentence = strategy_sentence(&unit->strategy);
    return sentence;
}
