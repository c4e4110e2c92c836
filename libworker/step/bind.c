#include "libworker/step/bind.h"

#include <string.h>

#include "libworker/parallel/custom.h"
#include "libworker/parallel/wires.h"
#include "libworker/pretrained/pretrained.h"
#include "libworker/step/context.h"
#include "libworker/step/prepare_settings.h"

static void connect_model(struct unit *unit)
{
    unit->model->unit = unit;
    unit->model->ear = (struct error_ear){context_hear, unit->ctx};
}

static void connect_optimizer(struct unit *unit)
{
    if (!unit->optimizer || unit_of_optimizer(unit->optimizer))
        return;
    unit->optimizer->ear = (struct error_ear){context_hear, unit->ctx};
    unit->optimizer->unit = unit;
}

/* Values also depend on the parameter's name, so that models of one shape begin differently. */
static uint64_t seed_of(const struct unit *unit)
{
    uint64_t seed = (uint64_t)settings_integer(&unit->ctx->settings, SETTING_SEED);
    return seed + (uint64_t)(unit_number(unit) - 1) * 0x9e3779b97f4a7c15u;
}

static bool is_set(const struct wk_context *ctx, enum setting setting, const char *choice)
{
    return strcmp(settings_text(&ctx->settings, setting), choice) == 0;
}

/* Why this unit's masters stay in the device's memory; NULL: they do not. */
static const char *master_stays(const struct unit *unit)
{
    const struct wk_context *ctx = unit->ctx;
    if (device_host_reads(ctx->compute.device))
        return "it has no effect on the CPU";
    if (model_is_custom(unit->model))
        return "passes of the program's own find parameters on the device";
    if (!unit->optimizer)
        return "the model has no optimizer, whose updates would fetch them";
    return unit->optimizer->ops->whole_tensors ? "the optimizer works on whole tensors" : NULL;
}

static bool masters_go(const struct unit *unit)
{
    return is_set(unit->ctx, SETTING_OFFLOAD_MASTERS, "host") && !master_stays(unit);
}

static void tell_of_masters(const struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    const char *why = master_stays(unit);
    if (!why || !is_set(ctx, SETTING_OFFLOAD_MASTERS, "host"))
        return;
    if (ctx->prepared.n_units > 1)
        context_notice(ctx, "offload.masters is host; those of model %d stay on the device: %s",
                       unit_number(unit), why);
    else
        context_notice(ctx, "offload.masters is host; they stay on the device: %s", why);
}

/* Values of passes wait in the host's memory, if they can. */
static void offload_as_set(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    unit->model->offloads = is_set(ctx, SETTING_OFFLOAD_ACTIVATIONS, "host");
    if (unit->model->offloads && !device_host_reads(ctx->compute.device) &&
        model_is_custom(unit->model))
        context_notice(ctx,
                       "offload.activations is host, which has no effect on the program's own "
                       "passes of model %d",
                       unit_number(unit));
}

/* `again`: values are from members or a checkpoint; the program's initial values may be freed. */
static int bind_model(struct unit *unit, bool again, struct error *err)
{
    const struct wk_context *ctx = unit->ctx;
    struct wk_model *model = unit->model;
    uint64_t seed = seed_of(unit);
    double mib = 1 << 20;
    struct narrowing narrowing = ctx->mixed.narrowing;
    narrowing.steps = unit->optimizer ? &unit->optimizer->steps : NULL;
    narrowing.trained = model_trained_count(model);
    struct strategy_options options = {
        .kind = prepare_strategy(ctx),
        .part = ctx->cut.part,
        .parts = ctx->cut.parts,
        .prefetch = (int)settings_integer(&ctx->settings, SETTING_PREFETCH),
        .keep_gathered = !settings_integer(&ctx->settings, SETTING_RESHARD),
        .narrowing = narrowing,
        .wires = ctx->compute.wires,
        .sizes.first_bytes =
            (size_t)(settings_number(&ctx->settings, SETTING_FIRST_BUCKET_MIB) * mib),
        .sizes.bytes = (size_t)(settings_number(&ctx->settings, SETTING_BUCKET_MIB) * mib),
        .static_graph = settings_integer(&ctx->settings, SETTING_STATIC_GRAPH),
        .hook = prepare_hook(ctx),
        .powersgd.rank = (int)settings_integer(&ctx->settings, SETTING_POWERSGD_RANK),
        .powersgd.warm_up = settings_integer(&ctx->settings, SETTING_POWERSGD_WARM_UP),
        .powersgd.seed = seed,
        .fill_later = again || (model->values.fill &&
                                settings_integer(&ctx->settings, SETTING_ONE_RANK_READS)),
        .offload = prepare_offload(ctx),
        .offload_host = is_set(ctx, SETTING_OFFLOAD_STATE, "host"),
        .masters_on_host = masters_go(unit),
        .offload_params = settings_integer(&ctx->settings, SETTING_OFFLOAD_PARAMETERS),
        .unscaled = model_is_custom(model) && !custom_carries_scale(model),
        .unused_fine = settings_integer(&ctx->settings, SETTING_FIND_UNUSED),
        /* Clamping of elements hides non-finite values, so they are checked before it. */
        .measures = settings_number(&ctx->settings, SETTING_CLIP_GRAD_NORM) > 0 &&
                    !(settings_number(&ctx->settings, SETTING_CLIP_GRAD_VALUE) > 0),
    };
    int rc = model_move(model, ctx->compute.queue, err);
    if (rc && *ctx->compute.why)
        (void)error_wrap(err, "this process computes on %s (%s)", device_name(ctx->compute.device),
                         ctx->compute.why);
    if (!rc && !model_is_custom(model) && !model->seed_waits)
        rc = model_seed(model, seed);
    if (!rc)
        rc = strategy_init(&unit->strategy, model, &options, err);
    if (!rc && !again)
        rc = buffers_reset(model, false, err);
    connect_model(unit);
    return rc;
}

/* Free its memory, after the copies of the last update. */
static void leave_memory(struct unit *unit)
{
    if (unit_of_optimizer(unit->optimizer) == unit)
        (void)optimizer_settle(unit->optimizer, NULL);
    strategy_fini(&unit->strategy);
}

/* Memory for model and optimizer, for the present rank and world. */
static int bind_unit(struct unit *unit, bool again, struct error *err)
{
    int rc = bind_model(unit, again, err);
    if (rc || !unit->optimizer)
        return rc;
    optimizer_move(unit->optimizer, unit->ctx->compute.queue);
    connect_optimizer(unit);
    return strategy_bind(&unit->strategy, unit->optimizer, err);
}

int bind_again(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    cut_place(ctx);
    units_each(unit, ctx) {
        if (rc)
            break;
        leave_memory(unit);
        if (!model_is_custom(unit->model))
            rc = model_seed(unit->model, unit->model->seed);
        if (!rc)
            rc = bind_unit(unit, true, err);
    }
    return rc || !ctx->group.comm ? rc : units_meet(ctx, err);
}

static void bind_loaders(struct wk_context *ctx)
{
    for (int i = 0; i < ctx->prepared.n_loaders; i++) {
        struct wk_loader *loader = ctx->prepared.loaders[i];
        if (!loader->options.seed)
            loader->options.seed = (uint64_t)settings_integer(&ctx->settings, SETTING_SEED);
        loader->owner = ctx;
    }
}

/* 0, -1 and -2 are the setting's choices, the first of enum wk_recompute. */
static void recompute_as_set(struct unit *unit)
{
    int64_t set = settings_integer(&unit->ctx->settings, SETTING_RECOMPUTE);
    unit->recomputes = set && !unit->model->recompute;
    if (unit->recomputes)
        (void)wk_model_recompute_by(unit->model,
                                    set > 0 ? WK_RECOMPUTE_WITHIN : (enum wk_recompute) - set, set);
}

static void remark(void *arg, const char *sentence)
{
    context_notice(arg, "%s", sentence);
}

static int open_wires(struct wk_context *ctx, struct error *err)
{
    enum { ABORT_MS = 20000 }; /* longer than any collective that is under way, were it not lost */
    const struct wires_options options = {
        .fast = is_set(ctx, SETTING_COLLECTIVES_SUMS, "fast"),
        .off = is_set(ctx, SETTING_COLLECTIVES_DEVICE, "off"),
        .by_hosts = is_set(ctx, SETTING_COLLECTIVES_BETWEEN, "tcp"),
        .open_ms = settings_integer(&ctx->settings, SETTING_CONNECT_TIMEOUT),
        .abort_ms = ABORT_MS,
        .remark = remark,
        .arg = ctx,
    };
    return wires_new(ctx->compute.queue, &options, &ctx->compute.wires, err);
}

int bind_all(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = open_wires(ctx, err);
    if (is_set(ctx, SETTING_OFFLOAD_STATE, "host") && device_host_reads(ctx->compute.device))
        context_notice(ctx, "offload.state is host, which has no effect on the CPU");
    if (is_set(ctx, SETTING_OFFLOAD_ACTIVATIONS, "host") && device_host_reads(ctx->compute.device))
        context_notice(ctx, "offload.activations is host, which has no effect on the CPU");
    ctx->cut.is_sharded = strategy_cuts(prepare_strategy(ctx));
    cut_place(ctx);
    units_each(unit, ctx) {
        char **config = &ctx->prepared.configs[unit_number(unit) - 1];
        rc = rc ? rc : pretrained_config(unit->model, WK_FORMAT_F32, config, err);
        rc = rc ? rc : mixed_open_unit(unit, err);
        recompute_as_set(unit);
        offload_as_set(unit);
        tell_of_masters(unit);
        rc = rc ? rc : bind_unit(unit, false, err);
    }
    if (rc)
        return rc;
    bind_loaders(ctx);
    ctx->prepared.ready = true;
    return 0;
}

/* Its memory was freed. */
static void disconnect(struct unit *unit)
{
    if (unit_of_optimizer(unit->optimizer) == unit) {
        optimizer_move(unit->optimizer, NULL);
        unit->optimizer->unit = NULL;
        unit->optimizer->ear = (struct error_ear){0};
    }
    if (unit_of_model(unit->model) == unit) {
        unit->model->ear = (struct error_ear){0};
        unit->model->unit = NULL;
        if (unit->recomputes)
            wk_model_recompute(unit->model, false);
        (void)model_move(unit->model, NULL, NULL);
    }
}

void bind_undo(struct wk_context *ctx)
{
    struct unit *unit;
    for (int i = 0; i < ctx->prepared.n_loaders; i++)
        ctx->prepared.loaders[i]->owner = NULL;
    units_each(unit, ctx) {
        leave_memory(unit);
        disconnect(unit);
    }
}
