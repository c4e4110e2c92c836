/* What the settings ask of wk_prepare, and whether they go together. */
#include <string.h>

#include "libworker/step/context.h"
#include "libworker/step/prepare.h"

static int refuse(struct error *err, const char *setting, const char *value)
{
    return error_set(err, WK_EUNSUPPORTED, "%s %s is not in this build", setting, value);
}

bool prepare_sharding(const struct wk_context *ctx, enum sharding *ret_sharding)
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

enum hook_kind prepare_hook(const struct wk_context *ctx)
{
    const char *name = settings_text(&ctx->settings, SETTING_DDP_HOOK);
    if (strcmp(name, "fp16") == 0)
        return HOOK_F16;
    if (strcmp(name, "bf16") == 0)
        return HOOK_BF16;
    return strcmp(name, "powersgd") == 0 ? HOOK_POWERSGD : HOOK_SUM;
}

const char *prepare_offload(const struct wk_context *ctx)
{
    const char *dir = settings_text(&ctx->settings, SETTING_OFFLOAD_DIR);
    return *dir ? dir : NULL;
}

static int check_offload(const struct wk_context *ctx, struct error *err)
{
    enum sharding sharding;
    if (!settings_integer(&ctx->settings, SETTING_OFFLOAD_PARAMETERS))
        return 0;
    if (!prepare_offload(ctx))
        return error_set(err, WK_EINVAL, "offload.parameters without an offload.dir");
    if (!prepare_sharding(ctx, &sharding) || sharding != SHARDING_FSDP)
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
    if (!prepare_sharding(ctx, &sharding))
        return 0;
    if (prepare_hook(ctx) != HOOK_SUM)
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
    bool cut = prepare_sharding(ctx, &sharding);
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

int prepare_check_settings(const struct wk_context *ctx, struct error *err)
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
