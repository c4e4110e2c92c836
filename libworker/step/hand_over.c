#include <stdlib.h>
#include <string.h>

#include "libworker/step/shards.h"

static void handed_fini(struct handed *handed)
{
    for (int unit = 0; unit < NUMBERS_UNITS_MAX; unit++)
        for (int i = 0; i < FLAT_MAX; i++)
            room_free(&handed->rooms[unit][i]);
    free(handed);
}

const struct handed *handed_find(const struct wk_context *ctx, int64_t part)
{
    for (int i = 0; i < ctx->n_handed; i++)
        if (ctx->handed[i]->part == part)
            return ctx->handed[i];
    return NULL;
}

void handed_clear(struct wk_context *ctx)
{
    for (int i = 0; i < ctx->n_handed; i++)
        handed_fini(ctx->handed[i]);
    ctx->n_handed = 0;
}

static int comm_failed(struct wk_context *ctx, int rc, struct error *err)
{
    return error_set(err, rc, "%s", units_sentence(ctx));
}

static int give(struct wk_context *ctx, int to, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    units_each(unit, ctx) {
        size_t count = strategy_plan(&unit->strategy)->shard;
        size_t own = strategy_range(&unit->strategy)->count;
        struct flats flats = flats_of(unit);
        struct room padded;
        rc = room_new(ctx, count, &padded, err);
        if (rc)
            return rc;
        for (int i = 0; i < flats.count && !rc; i++) {
            memcpy(padded.data, flats.data[i], own * sizeof(float));
            rc = wk_send(ctx->comm, padded.data, count, WK_F32, to, NULL);
        }
        room_free(&padded);
        if (rc)
            return comm_failed(ctx, rc, err);
    }
    return 0;
}

static int receive(struct wk_context *ctx, int from, struct handed *handed, struct error *err)
{
    for (int u = 0; u < ctx->n_units; u++) {
        struct unit *unit = &ctx->units[u];
        size_t count = strategy_plan(&unit->strategy)->shard;
        for (int i = 0; i < flats_of(unit).count; i++) {
            struct room *room = &handed->rooms[u][i];
            int rc = room_new(ctx, count, room, err);
            if (rc)
                return rc;
            rc = wk_recv(ctx->comm, room->data, count, WK_F32, from, NULL);
            if (rc)
                return comm_failed(ctx, rc, err);
        }
    }
    return 0;
}

static int take(struct wk_context *ctx, int from, int64_t part, struct error *err)
{
    struct handed *handed = calloc(1, sizeof(*handed));
    if (!handed)
        return error_set(err, WK_ENOMEM, "no memory for the shard of rank %d", from);
    handed->part = part;
    int rc = receive(ctx, from, handed, err);
    if (rc)
        handed_fini(handed);
    else
        ctx->handed[ctx->n_handed++] = handed;
    return rc;
}

static bool stays_with(const struct wk_context *ctx, const int32_t *leaves, int part)
{
    for (int rank = 0; rank < ctx->world; rank++)
        if (!leaves[rank] && prepare_layout(ctx, rank).part == part)
            return true;
    return false;
}

/* Of the leaving ranks with the same part, the first one sends it. */
static bool gives(const struct wk_context *ctx, const int32_t *leaves, int rank)
{
    int part = prepare_layout(ctx, rank).part;
    for (int before = 0; before < rank; before++)
        if (leaves[before] && prepare_layout(ctx, before).part == part)
            return false;
    return leaves[rank] && !stays_with(ctx, leaves, part);
}

static int next_staying(const struct wk_context *ctx, const int32_t *leaves, int after)
{
    do
        after = (after + 1) % ctx->world;
    while (leaves[after]);
    return after;
}

/* The largest number of parts that one rank would receive. */
static int most_of_one(const struct wk_context *ctx, const int32_t *leaves)
{
    int given = 0, leaving = 0;
    for (int rank = 0; rank < ctx->world; rank++) {
        leaving += leaves[rank];
        given += gives(ctx, leaves, rank);
    }
    int staying = ctx->world - leaving;
    return staying > 0 ? (given + staying - 1) / staying : 0;
}

int hand_over(struct wk_context *ctx, const int32_t *leaves, struct error *err)
{
    int to = -1, rc = 0, most = most_of_one(ctx, leaves);
    handed_clear(ctx);
    if (most > HANDED_MAX) {
        context_notice(ctx,
                       "too many ranks leave at once for the others to keep their parts of the "
                       "state: %d each, at most %d",
                       most, HANDED_MAX);
        return 0;
    }
    for (int rank = 0; rank < ctx->world && !rc; rank++) {
        if (!gives(ctx, leaves, rank))
            continue;
        to = next_staying(ctx, leaves, to);
        if (rank == ctx->rank)
            rc = give(ctx, to, err);
        else if (to == ctx->rank)
            rc = take(ctx, rank, prepare_layout(ctx, rank).part, err);
    }
    return rc;
}
