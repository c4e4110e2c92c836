#include "libworker/step/agree_memory.h"

#include "libworker/step/context.h"

int memory_agree(struct wk_context *ctx, bool has, const char *what, struct error *err)
{
    int32_t lacks = !has;
    int rc = ctx->group.comm ? wk_all_reduce(ctx->group.comm, &lacks, 1, WK_I32, WK_MAX, NULL) : 0;
    if (rc)
        return error_set(err, rc, "%s", wk_comm_error(ctx->group.comm));
    if (!lacks)
        return 0;
    return error_set(err, WK_ENOMEM, "no memory%s to %s", has ? " on another rank" : "", what);
}
