/* Values of steps and batches, for the program and its logs (worker/worker.h, worker/data.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/name.h"
#include "libworker/data/split.h"
#include "libworker/step/agree_memory.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"

double wk_loss(const struct wk_context *ctx)
{
    const struct unit *unit = units_main((struct wk_context *)ctx);
    return unit ? unit->loss : (double)NAN;
}

double wk_model_loss(const struct wk_model *model)
{
    const struct unit *unit = unit_of_model(model);
    return unit ? unit->loss : (double)NAN;
}

/* A lost metric does not end the training. */
static int refuse_metric(struct wk_context *ctx, const char *name)
{
    (void)context_refuse(ctx, WK_EINVAL,
                         "\"%.100s\" is no metric's name, which has 1 to %d of a-z 0-9 _ . / -",
                         name, METRIC_NAME_MAX);
    if (!ctx->reports.told_metric && ctx->group.rank == 0)
        context_notice(ctx, "wk_log: %s; it is left out", ctx->failure.refused);
    ctx->reports.told_metric = true;
    return WK_EINVAL;
}

int wk_log(struct wk_context *ctx, const char *name, double value)
{
    if (ctx->failure.sticky.code)
        return ctx->failure.sticky.code;
    size_t size = name ? strlen(name) : 0;
    if (size < 1 || size > METRIC_NAME_MAX ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_./-") != size)
        return refuse_metric(ctx, name ? name : "");
    if (!context_idle(ctx) && !ctx->loop.cut_short)
        report_one(ctx, name, value);
    return 0;
}

int wk_reduce_value(struct wk_context *ctx, double *value, enum wk_op op)
{
    if (!value)
        return context_misuse_text(ctx, WK_EINVAL, "wk_reduce_value was given no value");
    if (context_idle(ctx) || ctx->loop.cut_short)
        return ctx->failure.sticky.code;
    double sum = *value;
    int rc = wk_all_reduce(ctx->group.comm, &sum, 1, WK_F64, op, NULL);
    if (rc)
        return context_break(ctx, rc);
    *value = sum;
    return 0;
}

double wk_batch_mean(struct wk_context *ctx, const struct wk_batch *batch, double mean)
{
    if (!batch) {
        (void)context_misuse_text(ctx, WK_EINVAL, "wk_batch_mean was given no batch");
        return mean;
    }
    double sum = batch->samples ? mean * (double)batch->samples : 0;
    if (context_idle(ctx) || ctx->loop.cut_short || !batch->global_samples ||
        wk_reduce_value(ctx, &sum, WK_SUM))
        return mean;
    return context_rests(ctx) ? mean : sum / (double)batch->global_samples;
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
    if (context_idle(ctx) || !ctx->group.comm || ctx->loop.cut_short)
        return ctx->failure.sticky.code;
    int64_t most = (batch->global_samples + ctx->group.world - 1) / ctx->group.world;
    size_t row = (size_t)(most * width);
    float *own = calloc(row + 1, sizeof(*own));
    float *all = calloc(row * (size_t)ctx->group.world + 1, sizeof(*all));
    int rc = memory_agree(ctx, own && all, "gather metrics", &err);
    if (rc == WK_ENOMEM) {
        rc = context_fail(ctx, &err);
    } else if (rc) {
        rc = context_result(ctx, rc);
    } else {
        if (batch->samples)
            memcpy(own, values, (size_t)(batch->samples * width) * sizeof(*own));
        rc = context_result(ctx, wk_all_gather(ctx->group.comm, own, all, row, WK_F32, NULL));
    }
    for (int rank = 0; rank < ctx->group.world && !rc && !context_rests(ctx); rank++) {
        int64_t first, count;
        split_share(batch->global_samples, rank, ctx->group.world, &first, &count);
        memcpy(ret_all + first * width, all + row * (size_t)rank,
               (size_t)(count * width) * sizeof(*all));
    }
    free(own);
    free(all);
    return rc;
}
