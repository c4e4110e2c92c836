#include "libworker/step/cut.h"

#include "libworker/step/context.h"

struct layout cut_layout(const struct wk_context *ctx, int rank)
{
    return layout_of(rank, ctx->group.world,
                     (int)settings_integer(&ctx->settings, SETTING_MESH_DP_SHARD),
                     (int)settings_integer(&ctx->settings, SETTING_MESH_DP_REPLICATE));
}

void cut_place(struct wk_context *ctx)
{
    struct layout layout = cut_layout(ctx, ctx->group.rank);
    ctx->cut.part = layout.part;
    ctx->cut.parts = layout.shards;
}
