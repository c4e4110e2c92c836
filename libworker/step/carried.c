#include "libworker/step/carried.h"

#include "libworker/step/context.h"

/* Sums in double of floats that are all equal divide back to the same float. */
static void take_mean(struct buffers *buffers)
{
    double weight = buffers->sums[buffers->count];
    for (size_t i = 0; i < buffers->count && weight > 0; i++)
        buffers->host[i] = (float)(buffers->sums[i] / weight);
}

int carried_mean(struct unit *unit, struct error *err)
{
    struct wk_context *ctx = unit->ctx;
    struct buffers *buffers = &unit->model->buffers;
    if (!buffers->n || ctx->group.world == 1)
        return 0;
    int rc = buffers_read(unit->model, BUFFERS_WINDOW, err);
    if (rc)
        return rc;
    double weight = (double)buffers->samples;
    for (size_t i = 0; i < buffers->count; i++)
        buffers->sums[i] = weight > 0 ? weight * (double)buffers->host[i] : 0;
    buffers->sums[buffers->count] = weight;
    rc = wk_all_reduce(ctx->group.comm, buffers->sums, buffers->count + 1, WK_F64, WK_SUM, NULL);
    if (rc)
        return error_set(err, rc, "the mean of the ranks' buffers: %s",
                         wk_comm_error(ctx->group.comm));
    take_mean(buffers);
    return buffers_write(unit->model, BUFFERS_WINDOW, err);
}

int carried_read(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx)
        if (!rc)
            rc = buffers_read(unit->model, BUFFERS_CONTENT, err);
    return rc;
}

int carried_send(struct wk_context *ctx, int source, struct error *err)
{
    struct unit *unit;
    units_each(unit, ctx) {
        struct buffers *buffers = &unit->model->buffers;
        int rc = buffers->n ? wk_broadcast(ctx->group.comm, buffers->host, buffers->count, WK_F32,
                                           source, NULL)
                            : 0;
        if (rc)
            return error_set(err, rc, "%s", wk_comm_error(ctx->group.comm));
    }
    return 0;
}

int carried_write(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx)
        if (!rc)
            rc = buffers_write(unit->model, BUFFERS_CONTENT, err);
    return rc;
}
