/* The settings that wk_prepare uses, and whether they are compatible. */
#include <string.h>

#include "common/settings/mesh.h"
#include "libworker/config/remark.h"
#include "libworker/step/context.h"
#include "libworker/step/prepare.h"

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

int prepare_check_settings(const struct wk_context *ctx, struct error *err)
{
    const struct settings *settings = &ctx->settings;
    enum sharding sharding;
    const struct mesh_sizes sizes = {
        .dp = settings_integer(settings, SETTING_MESH_DP),
        .dp_replicate = settings_integer(settings, SETTING_MESH_DP_REPLICATE),
        .dp_shard = settings_integer(settings, SETTING_MESH_DP_SHARD),
    };
    int rc = settings_agree(settings, err);
    if (!rc && strlen(settings_text(settings, SETTING_RESUME_FROM)) >= CHECKPOINT_PATH_MAX)
        rc = error_set(err, WK_EINVAL, "resume_from is too long: at most %d bytes",
                       CHECKPOINT_PATH_MAX - 1);
    return rc ? rc : settings_mesh(&sizes, prepare_sharding(ctx, &sharding), ctx->world, err);
}
