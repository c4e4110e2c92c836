#include <stddef.h>
#include <string.h>

#include "libworker/parallel/custom.h"
#include "libworker/pretrained/pretrained.h"
#include "libworker/step/context.h"
#include "libworker/step/prepare.h"

struct layout prepare_layout(const struct wk_context *ctx, int rank)
{
    return layout_of(rank, ctx->world, (int)settings_integer(&ctx->settings, SETTING_MESH_DP_SHARD),
                     (int)settings_integer(&ctx->settings, SETTING_MESH_DP_REPLICATE));
}

/* Values also depend on the parameter's name, so that models of one shape begin differently. */
static uint64_t seed_of(const struct unit *unit)
{
    uint64_t seed = (uint64_t)settings_integer(&unit->ctx->settings, SETTING_SEED);
    return seed + (uint64_t)(unit_number(unit) - 1) * 0x9e3779b97f4a7c15u;
}

/* `again`: values are from members or a checkpoint; the program's initial values may be freed. */
static int bind_model(struct unit *unit, bool again, struct error *err)
{
    const struct wk_context *ctx = unit->ctx;
    struct wk_model *model = unit->model;
    uint64_t seed = seed_of(unit);
    double mib = 1 << 20;
    struct narrowing narrowing = ctx->narrowing;
    narrowing.steps = unit->optimizer ? &unit->optimizer->steps : NULL;
    struct strategy_options options = {
        .kind = prepare_strategy(ctx),
        .part = ctx->part,
        .parts = ctx->parts,
        .prefetch = (int)settings_integer(&ctx->settings, SETTING_PREFETCH),
        .keep_gathered = !settings_integer(&ctx->settings, SETTING_RESHARD),
        .narrowing = narrowing,
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
        .offload_params = settings_integer(&ctx->settings, SETTING_OFFLOAD_PARAMETERS),
        .unscaled = model_is_custom(model) && !custom_carries_scale(model),
        .unused_fine = settings_integer(&ctx->settings, SETTING_FIND_UNUSED),
        /* Clamping of elements hides non-finite values, so these are judged before it. */
        .measures = settings_number(&ctx->settings, SETTING_CLIP_GRAD_NORM) > 0 &&
                    !(settings_number(&ctx->settings, SETTING_CLIP_GRAD_VALUE) > 0),
    };
    if (!model_is_custom(model) && !model->seed_waits)
        model_seed(model, seed);
    int rc = strategy_init(&unit->strategy, model, &options, err);
    unit_bind_model(unit);
    return rc;
}

/* Memory for model and optimizer, for the present rank and world. */
static int bind_unit(struct unit *unit, bool again, struct error *err)
{
    int rc = bind_model(unit, again, err);
    if (rc || !unit->optimizer)
        return rc;
    rc = strategy_bind(&unit->strategy, unit->optimizer, err);
    if (!rc)
        unit_bind_optimizer(unit);
    return rc;
}

static void place_cut(struct wk_context *ctx)
{
    struct layout layout = prepare_layout(ctx, ctx->rank);
    ctx->part = layout.part;
    ctx->parts = layout.shards;
}

int prepare_cut(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    place_cut(ctx);
    units_each(unit, ctx) {
        if (rc)
            break;
        strategy_fini(&unit->strategy);
        if (!model_is_custom(unit->model))
            model_seed(unit->model, unit->model->seed);
        rc = bind_unit(unit, true, err);
    }
    return rc || !ctx->comm ? rc : units_meet(ctx, err);
}

static void bind_loaders(struct wk_context *ctx)
{
    for (int i = 0; i < ctx->n_loaders; i++) {
        struct wk_loader *loader = ctx->loaders[i];
        if (!loader->options.seed)
            loader->options.seed = (uint64_t)settings_integer(&ctx->settings, SETTING_SEED);
        loader->owner = ctx;
    }
}

static int bind_all(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    ctx->is_sharded = strategy_cuts(prepare_strategy(ctx));
    place_cut(ctx);
    units_each(unit, ctx) {
        char **config = &ctx->configs[unit_number(unit) - 1];
        rc = rc ? rc : pretrained_config(unit->model, WK_FORMAT_F32, config, err);
        rc = rc ? rc : mixed_open_unit(unit, err);
        unit->recomputes =
            settings_integer(&ctx->settings, SETTING_RECOMPUTE) && !unit->model->recompute;
        if (unit->recomputes)
            wk_model_recompute(unit->model, true);
        rc = rc ? rc : bind_unit(unit, false, err);
    }
    if (rc)
        return rc;
    bind_loaders(ctx);
    ctx->ready = true;
    return 0;
}

static int prepare(struct wk_context *ctx, const struct wk_object *objects, int n_objects,
                   struct error *err)
{
    int rc = prepare_check_settings(ctx, err);
    if (!rc)
        mixed_open(ctx);
    rc = rc ? rc : prepare_take(ctx, objects, n_objects, err);
    ctx->misused = rc != 0;
    rc = rc ? rc : bind_all(ctx, err);
    if (rc)
        return rc;
    rc = context_meet(ctx, err);
    rc = rc ? rc : state_agree(ctx, err);
    if (!context_mendable(rc) || context_break(ctx, rc))
        return rc;
    *err = (struct error){0};
    return context_reform(ctx, err);
}

int wk_prepare(struct wk_context *ctx, const struct wk_object *objects, int n_objects)
{
    struct error err = {0};
    if (!ctx) {
        (void)error_set(&err, WK_EINVAL, "wk_prepare in NULL instead of a context");
        return error_keep(&err);
    }
    if (ctx->error.code)
        return ctx->error.code;
    if (n_objects < 0)
        (void)error_set(&err, WK_EINVAL, "prepare: n_objects is %d", n_objects);
    else if (n_objects && !objects)
        (void)error_set(&err, WK_EINVAL, "prepare: the list of %d objects is NULL", n_objects);
    if (err.code)
        return context_misuse(ctx, &err);
    if (n_objects == 0) {
        objects = ctx->owned;
        n_objects = ctx->n_owned;
    }
    if (ctx->n_units) {
        for (int i = 0; i < n_objects; i++) {
            if (prepare_knows(ctx, objects[i].object))
                continue;
            (void)error_set(&err, WK_ESTATE,
                            "wk_prepare was called before: prepare everything in one call");
            return context_misuse(ctx, &err);
        }
        return 0;
    }
    int rc = prepare(ctx, objects, n_objects, &err);
    if (!rc) {
        units_show_bound(ctx);
        prepare_remark(ctx);
        return 0;
    }
    (void)error_wrap(&err, "prepare");
    return context_fail(ctx, &err);
}

void prepare_undo(struct wk_context *ctx)
{
    struct unit *unit;
    for (int i = 0; i < ctx->n_loaders; i++)
        ctx->loaders[i]->owner = NULL;
    units_each(unit, ctx) {
        unit_unbind(unit);
        strategy_fini(&unit->strategy);
    }
}
