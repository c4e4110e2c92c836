#include "libworker/step/hand_off.h"

#include <stdlib.h>

#include "libworker/device/reach.h"
#include "libworker/step/context.h"

static void handoff_fini(struct handoff *handoff)
{
    for (int unit = 0; unit < NUMBERS_UNITS_MAX; unit++)
        for (int i = 0; i < FLAT_MAX; i++)
            shard_buffer_free(&handoff->buffers[unit][i]);
    free(handoff);
}

const struct handoff *handoff_find(const struct wk_context *ctx, int64_t part)
{
    for (int i = 0; i < ctx->cut.n_handoffs; i++)
        if (ctx->cut.handoffs[i]->part == part)
            return ctx->cut.handoffs[i];
    return NULL;
}

void handoffs_clear(struct wk_context *ctx)
{
    for (int i = 0; i < ctx->cut.n_handoffs; i++)
        handoff_fini(ctx->cut.handoffs[i]);
    ctx->cut.n_handoffs = 0;
}

static int comm_failed(struct wk_context *ctx, int rc, struct error *err)
{
    return error_set(err, rc, "%s", units_sentence(ctx));
}

static int send_part(struct wk_context *ctx, const float *data, size_t count, int to,
                     struct error *err)
{
    int rc = wk_send(ctx->group.comm, data, count, WK_F32, to, NULL);
    if (rc)
        return comm_failed(ctx, rc, err);
    return 0;
}

static int give(struct wk_context *ctx, int to, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx) {
        size_t count = strategy_plan(&unit->strategy)->shard;
        struct flats flats = flats_of(unit);
        struct shard_buffer padded;
        rc = shard_buffer_new(ctx, count, &padded, err);
        if (rc)
            return rc;
        for (int i = 0; i < flats.count && !rc; i++) {
            struct shard_plan plan = flat_plan(strategy_plan(&unit->strategy), i);
            rc = reach_read(flats.queue[i], padded.data, flats.data[i],
                            flats.elements[i] * sizeof(float), err);
            if (!rc)
                rc = send_part(ctx, padded.data, plan.shard, to, err);
        }
        shard_buffer_free(&padded);
        if (rc)
            return rc;
    }
    return 0;
}

static int receive(struct wk_context *ctx, int from, struct handoff *handoff, struct error *err)
{
    for (int u = 0; u < ctx->prepared.n_units; u++) {
        struct unit *unit = &ctx->prepared.units[u];
        for (int i = 0; i < flats_of(unit).count; i++) {
            size_t count = flat_plan(strategy_plan(&unit->strategy), i).shard;
            struct shard_buffer *buffer = &handoff->buffers[u][i];
            int rc = shard_buffer_new(ctx, count, buffer, err);
            if (rc)
                return rc;
            rc = wk_recv(ctx->group.comm, buffer->data, count, WK_F32, from, NULL);
            if (rc)
                return comm_failed(ctx, rc, err);
        }
    }
    return 0;
}

static int take(struct wk_context *ctx, int from, int64_t part, struct error *err)
{
    struct handoff *handoff = calloc(1, sizeof(*handoff));
    if (!handoff)
        return error_set(err, WK_ENOMEM, "no memory for the shard of rank %d", from);
    handoff->part = part;
    int rc = receive(ctx, from, handoff, err);
    if (rc)
        handoff_fini(handoff);
    else
        ctx->cut.handoffs[ctx->cut.n_handoffs++] = handoff;
    return rc;
}

static bool stays_with(const struct wk_context *ctx, const int32_t *leaves, int part)
{
    for (int rank = 0; rank < ctx->group.world; rank++)
        if (!leaves[rank] && cut_layout(ctx, rank).part == part)
            return true;
    return false;
}

/* Of the leaving ranks with the same part, the first one sends it. */
static bool gives(const struct wk_context *ctx, const int32_t *leaves, int rank)
{
    int part = cut_layout(ctx, rank).part;
    for (int before = 0; before < rank; before++)
        if (leaves[before] && cut_layout(ctx, before).part == part)
            return false;
    return leaves[rank] && !stays_with(ctx, leaves, part);
}

static int next_staying(const struct wk_context *ctx, const int32_t *leaves, int after)
{
    do
        after = (after + 1) % ctx->group.world;
    while (leaves[after]);
    return after;
}

/* The largest number of parts that one rank would receive. */
static int most_of_one(const struct wk_context *ctx, const int32_t *leaves)
{
    int given = 0, leaving = 0;
    for (int rank = 0; rank < ctx->group.world; rank++) {
        leaving += leaves[rank];
        given += gives(ctx, leaves, rank);
    }
    int staying = ctx->group.world - leaving;
    return staying > 0 ? (given + staying - 1) / staying : 0;
}

int hand_off(struct wk_context *ctx, const int32_t *leaves, struct error *err)
{
    int to = -1, rc = 0, most = most_of_one(ctx, leaves);
    handoffs_clear(ctx);
    if (most > HANDOFFS_MAX) {
        context_notice(ctx,
                       "too many ranks leave at once for the others to keep their parts of the "
                       "state: %d each, at most %d",
                       most, HANDOFFS_MAX);
        return 0;
    }
    for (int rank = 0; rank < ctx->group.world && !rc; rank++) {
        if (!gives(ctx, leaves, rank))
            continue;
        to = next_staying(ctx, leaves, to);
        if (rank == ctx->group.rank)
            rc = give(ctx, to, err);
        else if (to == ctx->group.rank)
            rc = take(ctx, rank, cut_layout(ctx, rank).part, err);
    }
    return rc;
}
