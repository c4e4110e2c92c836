#include "libworker/step/prepare_settings.h"

#include <string.h>

#include "common/settings/mesh.h"
#include "libworker/config/remark.h"
#include "libworker/step/context.h"

enum strategy_kind prepare_strategy(const struct wk_context *ctx)
{
    const char *name = settings_text(&ctx->settings, SETTING_STRATEGY);
    if (strcmp(name, "zero1") == 0)
        return STRATEGY_ZERO1;
    if (strcmp(name, "zero2") == 0)
        return STRATEGY_ZERO2;
    return strcmp(name, "fsdp") == 0 ? STRATEGY_FSDP : STRATEGY_DDP;
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

int prepare_check_settings(const struct wk_context *ctx, struct error *err)
{
    const struct settings *settings = &ctx->settings;
    bool cuts = strategy_cuts(prepare_strategy(ctx));
    const struct mesh_sizes sizes = {
        .dp = settings_integer(settings, SETTING_MESH_DP),
        .dp_replicate = settings_integer(settings, SETTING_MESH_DP_REPLICATE),
        .dp_shard = settings_integer(settings, SETTING_MESH_DP_SHARD),
    };
    int rc = settings_agree(settings, err);
    if (!rc && strlen(settings_text(settings, SETTING_RESUME_FROM)) >= CHECKPOINT_PATH_MAX)
        rc = error_set(err, WK_EINVAL, "resume_from is too long: at most %d bytes",
                       CHECKPOINT_PATH_MAX - 1);
    return rc ? rc : settings_mesh(&sizes, cuts, ctx->group.world, err);
}
