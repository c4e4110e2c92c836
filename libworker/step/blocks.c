#include "libworker/step/blocks.h"

#include "libworker/parallel/custom.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"

static const char *const pass_names[] = {
    [MODEL_FORWARD] = "forward", [MODEL_BACKWARD] = "backward"};

static int leave_block(struct unit *unit, struct error *err)
{
    struct custom_place at = custom_place(unit->model);
    return at.block < 0 ? 0 : strategy_leave_block(&unit->strategy, at.block, at.pass, err);
}

/* A pass begins with its first block, after the block before is left. */
static int begin_pass(struct unit *unit, struct custom_place first)
{
    if (first.pass == MODEL_FORWARD && first.block == 0)
        strategy_use(&unit->strategy, unit->ctx->group.comm);
    int rc = first.pass == MODEL_BACKWARD && !unit->begun ? window_begin_pass(unit) : 0;
    unit->begun = unit->begun || (!rc && first.pass == MODEL_BACKWARD);
    return rc;
}

static int change_block(struct unit *unit, struct custom_place to, struct error *err)
{
    int rc = leave_block(unit, err);
    if (!rc)
        rc = begin_pass(unit, to);
    if (rc)
        return rc;
    return strategy_enter_block(&unit->strategy, to.block, to.pass, err);
}

static int refuse_order(struct wk_context *ctx, struct custom_place to, struct custom_place next)
{
    struct error err = {0};
    if (next.block < 0)
        (void)error_set(&err, WK_ESTATE,
                        "wk_enter_block: %s block %d after backward block 0; next is wk_backward",
                        pass_names[to.pass], to.block);
    else
        (void)error_set(&err, WK_ESTATE, "wk_enter_block: %s block %d; next is %s block %d",
                        pass_names[to.pass], to.block, pass_names[next.pass], next.block);
    return context_misuse(ctx, &err);
}

int wk_enter_block(struct wk_model *model, enum wk_pass pass, int block)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_enter_block");
    struct wk_context *ctx = unit->ctx;
    struct custom_place next;
    struct custom_place to = {.block = block,
                              .pass = pass == WK_BACKWARD ? MODEL_BACKWARD : MODEL_FORWARD};
    if (!custom_by_block(model))
        return context_refuse(ctx, WK_EINVAL, "wk_enter_block of a model %s",
                              model_is_custom(model) ? "whose buffers are all of block 0"
                                                     : "with libworker's own passes");
    if (!context_idle(ctx) && !custom_follows(model, to, &next))
        return refuse_order(ctx, to, next);
    if (to.pass == MODEL_FORWARD ? !context_idle(ctx) : context_trains(ctx)) {
        struct error err = {0};
        (void)context_pass_failed(ctx, change_block(unit, to, &err), &err);
    }
    custom_go(model, to);
    custom_show_bound(model);
    return ctx->failure.sticky.code;
}

static int pass_without_samples(struct unit *unit, struct error *err)
{
    int rc = strategy_empty_pass(&unit->strategy, MODEL_FORWARD, err);
    if (rc)
        return rc;
    return strategy_empty_pass(&unit->strategy, MODEL_BACKWARD, err);
}

void unit_blocks_forget(struct unit *unit)
{
    if (!custom_by_block(unit->model))
        return;
    custom_go(unit->model, (struct custom_place){.block = -1});
    custom_show_bound(unit->model);
}

int unit_blocks_end(struct unit *unit, struct error *err)
{
    struct custom_place at = custom_place(unit->model);
    if (!custom_by_block(unit->model))
        return 0;
    if (at.block > 0 || (at.block == 0 && at.pass == MODEL_FORWARD))
        return error_set(err, WK_ESTATE,
                         "wk_backward in %s block %d: passes enter all blocks forward, then all "
                         "backward to block 0",
                         pass_names[at.pass], at.block);
    int rc = at.block < 0 ? pass_without_samples(unit, err) : leave_block(unit, err);
    unit_blocks_forget(unit);
    return rc;
}
