#include "libworker/step/gather.h"

#include "libworker/parallel/custom.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"

static bool can_gather(const struct wk_context *ctx)
{
    return ctx->group.comm && !ctx->failure.sticky.code && !context_rests(ctx);
}

void unit_gather_own(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    int rc = can_gather(ctx) ? strategy_gather_own(&unit->strategy, ctx->group.comm) : 0;
    if (rc)
        (void)context_break(ctx, rc);
    custom_go(unit->model, (struct custom_place){.block = -1});
    custom_show_bound(unit->model);
}

int unit_gather_master(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    int rc = unit->optimizer ? optimizer_settle(unit->optimizer, NULL) : 0;
    if (!rc && can_gather(ctx))
        rc = strategy_gather(&unit->strategy, ctx->group.comm);
    return rc ? context_break(ctx, rc) : ctx->failure.sticky.code;
}

void units_gather(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        if (model_is_custom(unit->model))
            unit_gather_own(unit);
}
