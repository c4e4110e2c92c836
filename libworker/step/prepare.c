#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/parallel/custom.h"
#include "libworker/step/context.h"
#include "libworker/step/prepare.h"

struct wk_context *prepare_context_of_model(const struct wk_model *model)
{
    return model && model->grad_ready == step_grad_ready ? model->grad_ready_arg : NULL;
}

static void bound_step(struct wk_optimizer *optimizer, const struct optimizer_segment *segment,
                       float *params, const float *grads, float grad_scale)
{
    const struct bound_optimizer *bound = (const struct bound_optimizer *)optimizer->ops;
    bound->original->step(optimizer, segment, params, grads, grad_scale);
}

struct wk_context *prepare_context_of_optimizer(const struct wk_optimizer *optimizer)
{
    if (!optimizer || optimizer->ops->step != bound_step)
        return NULL;
    return ((const struct bound_optimizer *)optimizer->ops)->ctx;
}

static int refuse(struct error *err, const char *setting, const char *value)
{
    return error_set(err, WK_EUNSUPPORTED, "%s %s is not in this build", setting, value);
}

/* Whether parts of the state are on different ranks, and which. */
static bool strategy_of(const struct wk_context *ctx, enum sharding *ret_sharding)
{
    const char *name = settings_text(&ctx->settings, SETTING_STRATEGY);
    if (strcmp(name, "zero1") == 0)
        *ret_sharding = SHARDING_ZERO1;
    else if (strcmp(name, "zero2") == 0)
        *ret_sharding = SHARDING_ZERO2;
    else if (strcmp(name, "fsdp") == 0)
        *ret_sharding = SHARDING_FSDP;
    else
        return false;
    return true;
}

static enum hook_kind hook_of(const struct wk_context *ctx)
{
    const char *name = settings_text(&ctx->settings, SETTING_DDP_HOOK);
    if (strcmp(name, "fp16") == 0)
        return HOOK_F16;
    if (strcmp(name, "bf16") == 0)
        return HOOK_BF16;
    return strcmp(name, "powersgd") == 0 ? HOOK_POWERSGD : HOOK_SUM;
}

static const char *offload_dir(const struct wk_context *ctx)
{
    const char *dir = settings_text(&ctx->settings, SETTING_OFFLOAD_DIR);
    return *dir ? dir : NULL;
}

static int check_offload(const struct wk_context *ctx, struct error *err)
{
    enum sharding sharding;
    if (!settings_integer(&ctx->settings, SETTING_OFFLOAD_PARAMETERS))
        return 0;
    if (!offload_dir(ctx))
        return error_set(err, WK_EINVAL, "offload.parameters without an offload.dir");
    if (!strategy_of(ctx, &sharding) || sharding != SHARDING_FSDP)
        return error_set(err, WK_EINVAL,
                         "offload.parameters contradicts strategy %s, which has all of them in "
                         "memory; fsdp has not",
                         settings_text(&ctx->settings, SETTING_STRATEGY));
    return 0;
}

/* What only strategy ddp does. */
static int check_ddp(const struct wk_context *ctx, struct error *err)
{
    enum sharding sharding;
    const char *strategy = settings_text(&ctx->settings, SETTING_STRATEGY);
    if (!strategy_of(ctx, &sharding))
        return 0;
    if (hook_of(ctx) != HOOK_SUM)
        return error_set(err, WK_EINVAL, "ddp.hook %s contradicts strategy %s",
                         settings_text(&ctx->settings, SETTING_DDP_HOOK), strategy);
    if (settings_integer(&ctx->settings, SETTING_STATIC_GRAPH))
        return error_set(err, WK_EINVAL, "ddp.static_graph contradicts strategy %s", strategy);
    return 0;
}

/* One size of the mesh that is given but does not go into the world. */
static int misfit(const struct wk_context *ctx, enum setting setting, int64_t whole,
                  struct error *err)
{
    int64_t size = settings_integer(&ctx->settings, setting);
    if (!size || (whole ? size == whole : ctx->world % size == 0))
        return 0;
    return error_set(err, WK_EINVAL, "%s is %lld, %s %d ranks", setting_rows[setting].name,
                     (long long)size, whole ? "but there are" : "which does not divide",
                     ctx->world);
}

/* Sizes of the mesh against the strategy and the world. */
static int check_mesh(const struct wk_context *ctx, struct error *err)
{
    const struct settings *settings = &ctx->settings;
    enum sharding sharding;
    bool cut = strategy_of(ctx, &sharding);
    int64_t replicas = settings_integer(settings, SETTING_MESH_DP_REPLICATE);
    int64_t shards = settings_integer(settings, SETTING_MESH_DP_SHARD);
    if (!cut && shards > 1)
        return error_set(err, WK_EINVAL,
                         "mesh.dp_shard %lld contradicts strategy %s, which cuts nothing",
                         (long long)shards, settings_text(settings, SETTING_STRATEGY));
    int rc = misfit(ctx, SETTING_MESH_DP, ctx->world, err);
    rc = rc ? rc : misfit(ctx, SETTING_MESH_DP_REPLICATE, cut ? 0 : ctx->world, err);
    rc = rc || !cut ? rc : misfit(ctx, SETTING_MESH_DP_SHARD, 0, err);
    if (!rc && cut && replicas && shards && replicas * shards != ctx->world)
        return error_set(err, WK_EINVAL,
                         "mesh.dp_replicate %lld times mesh.dp_shard %lld is not the %d ranks that "
                         "there are",
                         (long long)replicas, (long long)shards, ctx->world);
    return rc;
}

struct layout prepare_layout(const struct wk_context *ctx, int rank)
{
    return layout_of(rank, ctx->world, (int)settings_integer(&ctx->settings, SETTING_MESH_DP_SHARD),
                     (int)settings_integer(&ctx->settings, SETTING_MESH_DP_REPLICATE));
}

/* Settings this build cannot honour are refused, never ignored. */
static int check_settings(const struct wk_context *ctx, struct error *err)
{
    const struct settings *settings = &ctx->settings;
    static const enum setting ones[] = {SETTING_MESH_CP, SETTING_MESH_TP, SETTING_MESH_PP};
    for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++)
        if (settings_integer(settings, ones[i]) != 1)
            return refuse(err, setting_rows[ones[i]].name, settings_text(settings, ones[i]));
    int rc = check_ddp(ctx, err);
    rc = rc ? rc : check_offload(ctx, err);
    return rc ? rc : check_mesh(ctx, err);
}

/* First pass: sort what was given. */
static int take_object(struct wk_context *ctx, const struct wk_object *object, struct error *err)
{
    if (!object->object)
        return error_set(err, WK_EINVAL, "wk_prepare was given NULL");
    switch (object->kind) {
    case WK_OBJECT_MODEL:
        if (ctx->model && ctx->model != object->object)
            return error_set(err, WK_EUNSUPPORTED, "one context trains one model, here are two");
        ctx->model = object->object;
        return 0;
    case WK_OBJECT_OPTIMIZER:
        if (ctx->optimizer && ctx->optimizer != object->object)
            return error_set(err, WK_EUNSUPPORTED, "a model has one optimizer, here are two");
        ctx->optimizer = object->object;
        return 0;
    case WK_OBJECT_LOADER:
        for (int i = 0; i < ctx->n_loaders; i++)
            if (ctx->loaders[i] == object->object)
                return 0;
        if (ctx->n_loaders == NUMBERS_LOADERS_MAX)
            return error_set(err, WK_EINVAL, "more than %d loaders", NUMBERS_LOADERS_MAX);
        ctx->loaders[ctx->n_loaders++] = object->object;
        return 0;
    case WK_OBJECT_SCHEDULER:
        for (int i = 0; i < ctx->n_schedulers; i++)
            if (ctx->schedulers[i] == object->object)
                return 0;
        if (ctx->n_schedulers == NUMBERS_SCHEDULERS_MAX)
            return error_set(err, WK_EINVAL, "more than %d schedulers", NUMBERS_SCHEDULERS_MAX);
        ctx->schedulers[ctx->n_schedulers++] = object->object;
        return 0;
    }
    return error_set(err, WK_EINVAL, "%d is no kind of object", (int)object->kind);
}

static int check_objects(const struct wk_context *ctx, struct error *err)
{
    if (!ctx->model)
        return error_set(err, WK_EINVAL, "there is no model to train");
    if (prepare_context_of_model(ctx->model))
        return error_set(err, WK_ESTATE, "the model is prepared in another context");
    if (narrowing_on(&ctx->narrowing) && model_is_custom(ctx->model))
        return error_set(err, WK_EUNSUPPORTED,
                         "mixed_precision %s chooses what libworker's own passes compute in, and a "
                         "custom model's are the program's: leave it at \"no\" and narrow inside "
                         "them (wk_narrow)",
                         settings_text(&ctx->settings, SETTING_MIXED_PRECISION));
    enum sharding sharding;
    if (strategy_of(ctx, &sharding)) {
        const char *name = settings_text(&ctx->settings, SETTING_STRATEGY);
        if (!ctx->optimizer)
            return error_set(err, WK_EINVAL,
                             "strategy %s cuts a model together with its optimizer's state, and "
                             "there is no optimizer; strategy ddp needs none",
                             name);
        if (ctx->optimizer->ops->whole_tensors)
            return error_set(err, WK_EUNSUPPORTED,
                             "%s works on whole tensors, which strategy %s cuts; use ddp or an "
                             "element-wise optimizer",
                             ctx->optimizer->ops->name, name);
    }
    if (ctx->optimizer && prepare_context_of_optimizer(ctx->optimizer))
        return error_set(err, WK_ESTATE, "the optimizer is prepared in another context");
    for (int i = 0; i < ctx->n_schedulers; i++)
        if (ctx->schedulers[i]->optimizer != ctx->optimizer)
            return error_set(err, WK_EINVAL, "a scheduler's optimizer is not prepared with it");
    for (int i = 0; i < ctx->n_loaders; i++) {
        const struct wk_loader *loader = ctx->loaders[i];
        if (loader->owner)
            return error_set(err, WK_ESTATE, "a loader is prepared in another context");
        if (!model_is_custom(ctx->model) && loader->options.length > ctx->model->context)
            return error_set(err, WK_EINVAL,
                             "samples of %lld tokens do not fit the model's context of %lld",
                             (long long)loader->options.length, (long long)ctx->model->context);
    }
    return 0;
}

/* `again`: values come from members or a checkpoint; what the program gave for a start may be gone.
 */
static int bind_model(struct wk_context *ctx, bool again, struct error *err)
{
    struct wk_model *model = ctx->model;
    uint64_t seed = (uint64_t)settings_integer(&ctx->settings, SETTING_SEED);
    double mib = 1 << 20;
    struct layout layout = prepare_layout(ctx, ctx->rank);
    struct strategy_options options = {
        .is_sharded = strategy_of(ctx, &options.shard.sharding),
        .shard.rank = layout.part,
        .shard.world = layout.shards,
        .shard.prefetch = (int)settings_integer(&ctx->settings, SETTING_PREFETCH),
        .shard.keep_gathered = !settings_integer(&ctx->settings, SETTING_RESHARD),
        .shard.narrowing = ctx->narrowing,
        .shard.sizes.first_bytes =
            (size_t)(settings_number(&ctx->settings, SETTING_FIRST_BUCKET_MIB) * mib),
        .shard.sizes.bytes = (size_t)(settings_number(&ctx->settings, SETTING_BUCKET_MIB) * mib),
        .ddp.static_graph = settings_integer(&ctx->settings, SETTING_STATIC_GRAPH),
        .hook = hook_of(ctx),
        .powersgd.rank = (int)settings_integer(&ctx->settings, SETTING_POWERSGD_RANK),
        .powersgd.warm_up = settings_integer(&ctx->settings, SETTING_POWERSGD_WARM_UP),
        .powersgd.seed = seed,
        .shard.fill_later = again || (model->values.fill &&
                                      settings_integer(&ctx->settings, SETTING_ONE_RANK_READS)),
        .offload = offload_dir(ctx),
        .shard.offload =
            settings_integer(&ctx->settings, SETTING_OFFLOAD_PARAMETERS) ? offload_dir(ctx) : NULL,
        .unused_fine = settings_integer(&ctx->settings, SETTING_FIND_UNUSED),
    };
    options.ddp.sizes = options.shard.sizes;
    if (!model_is_custom(model) && !model->seed_waits)
        (void)wk_model_init(model, seed);
    int rc = strategy_init(&ctx->strategy, model, &options, err);
    model->grad_ready = step_grad_ready;
    model->grad_ready_arg = ctx;
    return rc;
}

static int bind_optimizer(struct wk_context *ctx, struct error *err)
{
    if (!ctx->optimizer)
        return 0;
    int rc = strategy_bind(&ctx->strategy, ctx->optimizer, err);
    if (rc || prepare_context_of_optimizer(ctx->optimizer))
        return rc;
    ctx->bound = (struct bound_optimizer){*ctx->optimizer->ops, ctx->optimizer->ops, ctx};
    ctx->bound.ops.step = bound_step;
    ctx->optimizer->ops = &ctx->bound.ops;
    return 0;
}

int prepare_cut(struct wk_context *ctx, struct error *err)
{
    strategy_fini(&ctx->strategy);
    if (!model_is_custom(ctx->model))
        (void)wk_model_init(ctx->model, ctx->model->seed);
    int rc = bind_model(ctx, true, err);
    if (!rc && ctx->comm)
        rc = strategy_meet(&ctx->strategy, ctx->comm, err);
    return rc ? rc : bind_optimizer(ctx, err);
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

static int prepare(struct wk_context *ctx, const struct wk_object *objects, int n_objects,
                   struct error *err)
{
    int rc = check_settings(ctx, err);
    if (!rc)
        rc = mixed_open(ctx, err);
    for (int i = 0; i < n_objects && !rc; i++)
        rc = take_object(ctx, &objects[i], err);
    if (!rc)
        rc = check_objects(ctx, err);
    if (rc) {
        /* Nothing was bound yet, so nothing must be unbound. */
        ctx->model = NULL;
        ctx->optimizer = NULL;
        ctx->n_loaders = ctx->n_schedulers = 0;
        return rc;
    }
    ctx->narrowing.steps = ctx->optimizer ? &ctx->optimizer->steps : NULL;
    rc = bind_model(ctx, false, err);
    if (!rc)
        rc = bind_optimizer(ctx, err);
    if (rc)
        return rc;
    bind_loaders(ctx);
    rc = context_meet(ctx, err);
    rc = rc ? rc : state_agree(ctx, err);
    if (!context_mendable(rc) || context_break(ctx, rc))
        return rc;
    *err = (struct error){0};
    return context_reform(ctx, err);
}

static bool known(const struct wk_context *ctx, const void *object)
{
    bool found = object == ctx->model || object == ctx->optimizer;
    for (int i = 0; i < ctx->n_loaders; i++)
        found = found || object == ctx->loaders[i];
    for (int i = 0; i < ctx->n_schedulers; i++)
        found = found || object == ctx->schedulers[i];
    return found;
}

int wk_prepare(struct wk_context *ctx, const struct wk_object *objects, int n_objects)
{
    struct error err = {0};
    if (ctx->error.code)
        return ctx->error.code;
    if (ctx->model) {
        for (int i = 0; i < n_objects; i++) {
            if (known(ctx, objects[i].object))
                continue;
            (void)error_set(&err, WK_ESTATE,
                            "wk_prepare was called before: prepare everything in one call");
            return context_fail(ctx, &err);
        }
        return 0;
    }
    int rc = prepare(ctx, objects, n_objects, &err);
    if (!rc)
        return 0;
    (void)error_wrap(&err, "prepare");
    return context_fail(ctx, &err);
}

void prepare_undo(struct wk_context *ctx)
{
    for (int i = 0; i < ctx->n_loaders; i++)
        ctx->loaders[i]->owner = NULL;
    if (ctx->optimizer && prepare_context_of_optimizer(ctx->optimizer) == ctx)
        ctx->optimizer->ops = ctx->bound.original;
    if (ctx->model && prepare_context_of_model(ctx->model) == ctx) {
        ctx->model->grad_ready = NULL;
        ctx->model->grad_ready_arg = NULL;
    }
    strategy_fini(&ctx->strategy);
}
