#include "libworker/step/window.h"

#include <math.h>
#include <string.h>

#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/context.h"

static bool anything_dealt(const struct wk_context *ctx)
{
    for (int i = 0; i < SOURCES; i++)
        if (ctx->step.dealt[i])
            return true;
    return false;
}

/* In a step the loop repeats, and asks each source, as often as a window has passes, whether a
 * window is open just then or not. */
static bool has_dealt(const struct wk_context *ctx, int source)
{
    return ctx->step.dealt[source] >= (ctx->step.window > 1 ? ctx->step.window : 1);
}

/* After a break the program continues in the middle of its loop. All sources but the first one of
 * the step are skipped once, so that all members begin the step again at the same place. */
static bool passes_by(struct wk_context *ctx, int source)
{
    if (ctx->step.leader == SOURCE_NONE || ctx->step.leader == source || ctx->step.dealt[source])
        return false;
    ctx->step.dealt[source]++;
    return true;
}

static void refuse_untaken(const struct unit *unit)
{
    struct error err = {0};
    (void)error_set(&err, WK_ESTATE,
                    "the next batch is asked for, but the gradients of model %d were not used: "
                    "after its last wk_backward of a step call wk_step of its optimizer (%s)",
                    unit_number(unit), unit->optimizer->ops->name);
    (void)context_misuse(unit->ctx, &err);
}

/* Reported once in a step. */
static void remark_waiting(struct wk_context *ctx, const struct unit *unit, int source)
{
    enum { PATIENCE = 16 }; /* times the batches of a window */
    if (ctx->step.dealt[source] == PATIENCE * ctx->step.window && unit->micro > 0)
        context_notice(ctx,
                       "model %d has %d of %d passes after %d batches: until its optimizer has "
                       "stepped the step is not over, and nothing is saved",
                       unit_number(unit), unit->micro, ctx->step.window, ctx->step.dealt[source]);
}

void window_check(struct wk_context *ctx, int source)
{
    const struct unit *unit;
    if (ctx->step.phase != STEP_UNDER_WAY || !ctx->step.dealt[source] || !has_dealt(ctx, source))
        return;
    units_each(unit, ctx) {
        if (sums_begun(&unit->sums) && unit->micro > 0) {
            refuse_untaken(unit);
            return;
        }
        remark_waiting(ctx, unit, source);
    }
}

bool window_joins(struct wk_context *ctx, int source, const struct wk_loader *loader)
{
    if (ctx->failure.sticky.code || ctx->loop.ended)
        return false;
    /* A window that waits for more data than there is never fills: the loop ends without its
     * step. */
    if (loader && loader_at_end(loader))
        return false;
    if (ctx->step.phase == STEP_UNDER_WAY && units_open(ctx))
        return true;
    if (context_rests(ctx))
        return passes_by(ctx, source);
    return ctx->step.phase == STEP_UNDER_WAY && anything_dealt(ctx) && !has_dealt(ctx, source);
}

void window_deal(struct wk_context *ctx, int source)
{
    if (ctx->step.phase == STEP_BOUNDARY) {
        ctx->step.leader = source;
        phase_set(&ctx->step.phase, STEP_UNDER_WAY);
    }
    ctx->step.dealt[source]++;
    if (!units_open(ctx))
        ctx->step.window = 0;
}

/* This rank's messages with the window's sums. */
static void say(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    stop_say(ctx, &unit->sums.said);
    if (ctx->cut.is_sharded)
        save_announce(ctx, &unit->sums.said);
}

static int refuse_pass(struct unit *unit)
{
    struct error err = {0};
    if (!unit->optimizer)
        (void)error_set(&err, WK_ESTATE,
                        "wk_backward of model %d, which has no use for gradients: it was prepared "
                        "without an optimizer",
                        unit_number(unit));
    else if (sums_begun(&unit->sums))
        (void)error_set(&err, WK_ESTATE,
                        "wk_backward, but the gradients of this step are already being sent to the "
                        "other ranks: call wk_step first, or set a larger "
                        "gradient_accumulation_steps");
    return err.code ? context_misuse(unit->ctx, &err) : 0;
}

/* wk_join's weight counts once in each window. */
static void weigh(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    if (unit->joined != ctx->step.joins)
        unit->weights += ctx->step.weight;
    unit->joined = ctx->step.joins;
    ctx->step.weighed = true;
}

int window_begin_pass(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    int rc = refuse_pass(unit);
    if (rc)
        return rc;
    if (ctx->step.window < 1)
        ctx->step.window = (int)settings_integer(&ctx->settings, SETTING_ACCUMULATION);
    if (ctx->step.phase == STEP_BOUNDARY)
        phase_set(&ctx->step.phase, STEP_UNDER_WAY);
    if (!unit->on_dealt)
        weigh(unit);
    bool last = (unit->micro + 1 >= ctx->step.window || ctx->step.ends) && !unit->no_sync;
    sums_begin(unit, last);
    if (last)
        say(unit);
    strategy_scaled(&unit->strategy, mixed_scale(unit));
    strategy_begin(&unit->strategy, ctx->group.comm, last);
    return 0;
}

int window_end_pass(struct unit *unit, struct error *err)
{
    const struct pass_loss pass = {unit->pass_loss, unit->share, unit->keeps_loss};
    sums_add_loss(unit, &pass);
    if (unit->has_loss)
        unit->sums.said.losses++;
    if (unit->counts.left > 0)
        unit->counts.left--;
    window_forget_loss(unit);
    return sums_begun(&unit->sums) ? sums_say(unit, err) : 0;
}

void window_forget_loss(struct unit *unit)
{
    unit->pass_loss = 0;
    unit->has_loss = unit->keeps_loss = false;
}

double window_weight(const struct unit *unit)
{
    if (unit->counts.batches)
        return unit->counts.batches;
    return unit->weights > 0 ? unit->weights : unit->micro;
}

double window_loss(const struct unit *unit)
{
    const struct consensus *sums = &unit->sums.heard;
    return sums->losses > 0 ? (double)sums->loss / window_weight(unit) : (double)NAN;
}

bool window_was_taken(const struct unit *unit)
{
    return unit->passed < unit->numbers.done;
}

/* The sums of every window of a step are equal on all ranks, so a number of any rank counts for
 * all. */
static void hear(struct wk_context *ctx, const struct consensus *sums)
{
    bool save = sums->save > 0;
    stop_hear(ctx, sums);
    ctx->step.wants_save = ctx->step.wants_save || save;
    ctx->step.may_save = ctx->step.may_save || (save && sums->busy == 0);
    if (save)
        ctx->saving.ticket = (uint32_t)sums->ticket;
}

static bool all_passed(const struct wk_context *ctx)
{
    const struct unit *unit;
    units_each(unit, ctx)
        if (unit->optimizer && !unit->passed)
            return false;
    return true;
}

static bool any_done(const struct wk_context *ctx)
{
    const struct unit *unit;
    units_each(unit, ctx)
        if (unit->numbers.done)
            return true;
    return false;
}

/* Forget the step in progress completely, whether it is complete, given up or to begin again. */
static void forget_step(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        unit->passed = 0;
    memset(ctx->step.dealt, 0, sizeof(ctx->step.dealt));
    ctx->step.window = 0;
    ctx->step.ends = ctx->step.wants_save = ctx->step.may_save = false;
}

/* The step's use of data and the ranks' agreements become part of the state. */
static void complete(struct wk_context *ctx)
{
    bool counts = false;
    struct unit *unit;
    units_each(unit, ctx) {
        counts = counts || unit->numbers.taken > 0;
        unit->numbers.done = unit->numbers.taken = 0;
    }
    /* The requested save is for the state after this step. A skipped step does not produce it; then
     * the next step that does is saved. */
    ctx->saving.agreed = counts && ctx->step.may_save;
    ctx->saving.asked =
        ctx->saving.asked || (!counts && ctx->group.rank == 0 && ctx->step.wants_save);
    ctx->state.numbers.step += counts;
    ctx->state.numbers.rng = ctx->state.rng;
    for (int i = 0; i < ctx->prepared.n_loaders; i++)
        ctx->prepared.loaders[i]->committed = ctx->prepared.loaders[i]->cursor;
    forget_step(ctx);
    phase_set(&ctx->step.phase, STEP_BOUNDARY);
    profile_step(&ctx->reports.profile, ctx->state.numbers.step + 1);
    if (!counts)
        return;
    double tokens = ctx->step.tokens;
    ctx->step.tokens = 0;
    report_step(ctx, tokens);
}

static void make_due(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    for (int i = 0; i < ctx->prepared.n_schedulers; i++)
        if (ctx->prepared.schedulers[i]->optimizer == unit->optimizer)
            ctx->step.scheduler_due[i] = true;
}

static void remark_lossless(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    if (ctx->group.rank == 0 && !ctx->step.told_lossless)
        context_notice(ctx,
                       "model %d has no loss to show: a program with its own passes sets it with "
                       "wk_set_loss, before each wk_backward",
                       unit_number(unit));
    ctx->step.told_lossless = true;
}

void window_close(struct unit *unit, enum window_result result)
{
    struct wk_context *ctx = unit->ctx;
    const struct consensus sums = unit->sums.heard;
    hear(ctx, &sums);
    if (result == WINDOW_TAKEN) {
        unit->loss = window_loss(unit);
        unit->loss_is_new = true;
        if (!(sums.losses > 0))
            remark_lossless(unit);
        unit->numbers.taken++;
        buffers_keep(unit->model);
        make_due(unit);
    }
    unit->numbers.done += result != WINDOW_AGAIN;
    unit->passed++;
    unit_clear(unit);
    if (all_passed(ctx))
        complete(ctx);
}

void window_void(struct wk_context *ctx)
{
    ctx->step.leader = SOURCE_OWN;
    phase_set(&ctx->step.phase, STEP_VOID);
}

static void end_void(struct wk_context *ctx)
{
    window_begin_again(ctx);
    ctx->state.rng = ctx->state.numbers.rng;
}

void window_end_step(struct wk_context *ctx)
{
    if (ctx->step.phase == STEP_VOID)
        end_void(ctx);
    if (ctx->step.phase != STEP_UNDER_WAY)
        return;
    if (any_done(ctx)) {
        complete(ctx);
        return;
    }
    forget_step(ctx);
    phase_set(&ctx->step.phase, STEP_BOUNDARY);
}

void window_roll_back(struct wk_context *ctx)
{
    struct unit *unit;
    /* No loader deals a batch again for work that a program did without one. */
    if (ctx->step.phase == STEP_UNDER_WAY && !anything_dealt(ctx))
        window_end_step(ctx);
    units_each(unit, ctx)
        unit_clear(unit);
    forget_step(ctx);
    ctx->stop.heard = HEARD_NOTHING;
    ctx->saving.agreed = false;
    for (int i = 0; i < ctx->prepared.n_loaders; i++)
        ctx->prepared.loaders[i]->cursor = ctx->prepared.loaders[i]->committed;
    ctx->state.rng = ctx->state.numbers.rng;
    ctx->step.tokens = ctx->step.weight = 0;
    phase_set(&ctx->step.phase, STEP_BROKEN);
}

/* The program's own passes have continued to write to its models' gradients meanwhile. */
void window_begin_again(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx) {
        strategy_forget(&unit->strategy);
        unit_clear(unit);
        window_forget_loss(unit);
    }
    forget_step(ctx);
    phase_set(&ctx->step.phase, STEP_BOUNDARY);
}
