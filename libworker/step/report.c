#include "libworker/step/report.h"

#include <math.h>
#include <stdio.h>

#include "common/base/str.h"
#include "libworker/step/clock.h"
#include "libworker/step/context.h"

enum { NAME_BYTES = SESSION_METRIC_NAME_MAX };

/* False without a session and in the first generation of a job: its files begin. */
static bool goes_on(const struct wk_context *ctx)
{
    return ctx->session && ctx->group.generation > 1;
}

static int open_files(struct wk_context *ctx, struct error *err)
{
    struct track_options files = {
        .path = settings_text(&ctx->settings, SETTING_LOG_FILE),
        .csv = settings_text(&ctx->settings, SETTING_LOG_CSV),
        .events = settings_text(&ctx->settings, SETTING_LOG_TENSORBOARD),
    };
    int rc = track_open(&ctx->reports.track, &files, context_now_ns(), err);
    return rc ? rc
              : profile_trace(&ctx->reports.profile,
                              settings_text(&ctx->settings, SETTING_TRACE_FILE), ctx->group.rank,
                              goes_on(ctx), err);
}

/* Training that has begun continues without logs. */
static void follow_files(struct wk_context *ctx)
{
    struct error err = {0};
    if (open_files(ctx, &err))
        context_notice(ctx, "rank 0 is another process now, and its logs end: %s", err.text);
}

int report_open(struct wk_context *ctx, FILE *progress, struct error *err)
{
    struct track_options options = {
        .progress = progress,
        .every = settings_integer(&ctx->settings, SETTING_LOG_EVERY),
    };
    profile_init(&ctx->reports.profile);
    int rc = track_init(&ctx->reports.track, &options, context_now_ns(), err);
    ctx->reports.is_open = !rc;
    ctx->reports.keeps_files = !rc && ctx->group.rank == 0;
    if (!ctx->reports.keeps_files)
        return rc;
    if (goes_on(ctx))
        follow_files(ctx);
    else
        rc = open_files(ctx, err);
    return rc;
}

void report_close(struct wk_context *ctx)
{
    if (ctx->reports.is_open)
        track_fini(&ctx->reports.track);
    profile_fini(&ctx->reports.profile);
}

void report_release(struct wk_context *ctx)
{
    if (!ctx->reports.is_open || !ctx->reports.keeps_files)
        return;
    ctx->reports.keeps_files = false;
    track_close(&ctx->reports.track);
    profile_end_trace(&ctx->reports.profile);
}

void report_follow(struct wk_context *ctx)
{
    if (!ctx->reports.is_open || ctx->reports.keeps_files || ctx->group.rank != 0)
        return;
    ctx->reports.keeps_files = true;
    follow_files(ctx);
}

void report_one(struct wk_context *ctx, const char *name, double value)
{
    if (ctx->session)
        ctx->session->ops->metric(ctx->session, ctx->state.numbers.step, name, value);
    if (ctx->group.rank != 0)
        return;
    if (track_metric(&ctx->reports.track, ctx->state.numbers.step, name, value) &&
        !ctx->reports.failed) {
        ctx->reports.failed = true;
        context_notice(ctx, "log_file cannot be written any more");
    }
}

/* A metric of a unit: plain name for the main one, with a number for others. */
static void report_unit(struct unit *unit, const char *name, double value)
{
    char numbered[NAME_BYTES];
    if (unit == units_main(unit->ctx))
        (void)str_copy(numbered, sizeof(numbered), name);
    else
        (void)str_printf(numbered, sizeof(numbered), "%s/%d", name, unit_number(unit));
    report_one(unit->ctx, numbered, value);
}

/* Seconds per step by phase, of this rank. */
static void report_profile(struct wk_context *ctx)
{
    struct profile_means means;
    profile_take(&ctx->reports.profile, &means);
    for (int i = 0; i < PROFILE_COUNT; i++) {
        char name[NAME_BYTES];
        (void)str_printf(name, sizeof(name), "profile/%s", profile_name((enum profile_phase)i));
        report_one(ctx, name, means.phase[i]);
    }
    report_one(ctx, "profile/other", means.other);
    report_one(ctx, "profile/step", means.step);
}

static void report_sometimes(struct unit *unit)
{
    report_unit(unit, "learning_rate", wk_optimizer_rate(unit->optimizer));
    if (unit->ctx->mixed.scales) {
        report_unit(unit, "loss_scale", unit->scaler.scale);
        report_unit(unit, "skipped_steps", (double)unit->scaler.skipped);
    }
    if (unit->norm > 0)
        report_unit(unit, "grad_norm", unit->norm);
}

/* The unit with the numbers of a step's line: the first that trained in it. */
static struct unit *trained(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        if (unit->optimizer && unit->loss_is_new)
            return unit;
    return units_main(ctx);
}

static void report_losses(struct wk_context *ctx)
{
    struct unit *unit;
    units_each(unit, ctx)
        if (unit->optimizer && unit->loss_is_new && !isnan(unit->loss))
            report_unit(unit, "loss", unit->loss);
}

/* A step's line, and now and then the numbers beside it. Of rank 0. */
static void report_line(struct wk_context *ctx, double tokens)
{
    struct unit *unit, *shown = trained(ctx);
    struct track_step step = {
        .step = ctx->state.numbers.step,
        .total_steps = ctx->state.numbers.total_steps,
        .loss = shown->loss,
        .rate = wk_optimizer_rate(shown->optimizer),
        .tokens = tokens,
        .of_samples = ctx->prepared.n_loaders && loader_counts_samples(ctx->prepared.loaders[0]),
        .now_ns = context_now_ns(),
    };
    double rate = track_progress(&ctx->reports.track, &step);
    if (rate < 0)
        return;
    report_one(ctx, "tokens_per_second", rate);
    units_each(unit, ctx)
        if (unit->optimizer)
            report_sometimes(unit);
    report_profile(ctx);
}

void report_step(struct wk_context *ctx, double tokens)
{
    struct unit *unit;
    struct session_step told = {.step = ctx->state.numbers.step,
                                .total_steps = ctx->state.numbers.total_steps,
                                .seconds = ctx->reports.profile.all_seconds,
                                .waited_seconds = ctx->reports.profile.exposed_seconds};
    if (ctx->session)
        ctx->session->ops->progress(ctx->session, &told);
    report_losses(ctx);
    if (ctx->group.rank == 0)
        report_line(ctx, tokens);
    units_each(unit, ctx) {
        unit->norm = 0;
        unit->loss_is_new = false;
    }
}
