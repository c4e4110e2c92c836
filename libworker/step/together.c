/* Collective helpers besides training (worker/worker.h, worker/data.h). */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/data/split.h"
#include "libworker/step/context.h"

static bool idle(const struct wk_context *ctx)
{
    return ctx->error.code || context_rests(ctx) || !ctx->comm;
}

static int done(struct wk_context *ctx, int rc)
{
    return rc ? context_break(ctx, rc) : ctx->error.code;
}

int wk_wait_for_all(struct wk_context *ctx)
{
    return idle(ctx) ? ctx->error.code : done(ctx, wk_barrier(ctx->comm, NULL));
}

static bool goes_first(const struct wk_context *ctx, bool local)
{
    return local ? ctx->local_rank == 0 : ctx->rank == 0;
}

int wk_main_first_begin(struct wk_context *ctx, bool local)
{
    return goes_first(ctx, local) ? ctx->error.code : wk_wait_for_all(ctx);
}

int wk_main_first_end(struct wk_context *ctx, bool local)
{
    return goes_first(ctx, local) ? wk_wait_for_all(ctx) : ctx->error.code;
}

void wk_split(const struct wk_context *ctx, int64_t total, bool pad, int64_t *ret_first,
              int64_t *ret_count)
{
    split_share(total, ctx->rank, ctx->world, ret_first, ret_count);
    if (pad)
        *ret_count = (total + ctx->world - 1) / ctx->world;
}

void wk_trigger(struct wk_context *ctx)
{
    ctx->triggered = true;
}

bool wk_triggered(struct wk_context *ctx)
{
    int32_t pulled = ctx->triggered;
    if (idle(ctx))
        return false;
    ctx->triggered = false;
    if (done(ctx, wk_all_reduce(ctx->comm, &pulled, 1, WK_I32, WK_MAX, NULL)) || context_rests(ctx))
        return false;
    ctx->all_triggered = pulled;
    return pulled;
}

void wk_print(struct wk_context *ctx, FILE *out, const char *fmt, ...)
{
    va_list ap;
    if (ctx->rank != 0)
        return;
    va_start(ap, fmt);
    (void)vfprintf(out, fmt, ap);
    va_end(ap);
    size_t length = strlen(fmt);
    if (length > 0 && fmt[length - 1] == '\n')
        (void)fflush(out);
}

void wk_print_error(const struct wk_context *ctx, FILE *out)
{
    if (wk_status(ctx))
        (void)fprintf(out, "rank %d: %s\n", ctx->rank, wk_last_error(ctx));
}

bool wk_is_local_main(const struct wk_context *ctx)
{
    return ctx->local_rank == 0;
}

bool wk_is_last(const struct wk_context *ctx)
{
    return ctx->rank == ctx->world - 1;
}

/* Shares differ by at most one row: all send as many rows as the largest, and the receivers drop
 * the padding. */
int wk_gather_for_metrics(struct wk_context *ctx, const struct wk_batch *batch, const float *values,
                          int64_t width, float *ret_all)
{
    struct error err = {0};
    if (!batch) {
        (void)error_set(&err, WK_EINVAL, "wk_gather_for_metrics was given no batch");
        return context_misuse(ctx, &err);
    }
    if (idle(ctx) || ctx->cut_short)
        return ctx->error.code;
    int64_t most = (batch->global_samples + ctx->world - 1) / ctx->world;
    size_t row = (size_t)(most * width);
    float *own = calloc(row + 1, sizeof(*own));
    float *all = calloc(row * (size_t)ctx->world + 1, sizeof(*all));
    int rc = memory_agree(ctx, own && all, "gather metrics", &err);
    if (rc == WK_ENOMEM) {
        rc = context_fail(ctx, &err);
    } else if (rc) {
        rc = done(ctx, rc);
    } else {
        if (batch->samples)
            memcpy(own, values, (size_t)(batch->samples * width) * sizeof(*own));
        rc = done(ctx, wk_all_gather(ctx->comm, own, all, row, WK_F32, NULL));
    }
    for (int rank = 0; rank < ctx->world && !rc && !context_rests(ctx); rank++) {
        int64_t first, count;
        split_share(batch->global_samples, rank, ctx->world, &first, &count);
        memcpy(ret_all + first * width, all + row * (size_t)rank,
               (size_t)(count * width) * sizeof(*all));
    }
    free(own);
    free(all);
    return rc;
}
