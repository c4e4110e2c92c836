/* Agrees on missing memory. A rank that failed alone would leave the others waiting in the next
 * collective until its process has ended. */
#include "libworker/step/context.h"

int memory_agree(struct wk_context *ctx, bool has, const char *what, struct error *err)
{
    int32_t lacks = !has;
    int rc = ctx->comm ? wk_all_reduce(ctx->comm, &lacks, 1, WK_I32, WK_MAX, NULL) : 0;
    if (rc)
        return error_set(err, rc, "%s", wk_comm_error(ctx->comm));
    if (!lacks)
        return 0;
    return error_set(err, WK_ENOMEM, "no memory%s to %s", has ? " on another rank" : "", what);
}
