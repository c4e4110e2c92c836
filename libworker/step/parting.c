/* Ranks learn at different times that they must stop, or that a newer generation exists. All
 * continue training until every rank has learned one or the other. The sums of a step inform all of
 * them at once, so they separate after the same step:
 *
 *   all stop                     they save together, and end
 *   some stop, others leave      a stopping rank sends the parts that only it has to the others
 *   all leave                    they meet again in the next generation
 *
 * A stop after half of its grace waits no longer. If any rank then knows of a newer generation, the
 * ranks that were not asked to stop continue there; otherwise all stop. Without a session there is
 * no newer generation: a stop of one rank applies to all, after the first step whose sums contain
 * it.
 */
#include <stdlib.h>

#include "libworker/step/shards.h"

/* True if half of the stop's grace is over. */
static bool is_pressing(struct wk_context *ctx)
{
    int64_t now_ms = context_now_ms(), grace_ms;
    if (!ctx->session)
        return true;
    if (!ctx->half_grace_ms) {
        if (!ctx->session->ops->stopping(ctx->session, &grace_ms))
            grace_ms = SIGNAL_GRACE_MS;
        ctx->half_grace_ms = now_ms + grace_ms / 2;
    }
    return now_ms >= ctx->half_grace_ms;
}

void parting_say(struct wk_context *ctx, struct consensus *said)
{
    bool stops = boundary_stopping(ctx);
    said->stop = stops;
    said->pressing = stops && is_pressing(ctx);
    said->leave = !stops && boundary_behind(ctx);
}

void parting_hear(struct wk_context *ctx, const struct consensus *sums)
{
    float all = (float)ctx->world;
    if (sums->stop >= all || (sums->pressing > 0 && sums->leave == 0))
        ctx->heard = HEARD_STOP;
    else if (sums->stop + sums->leave >= all || sums->pressing > 0)
        ctx->heard = HEARD_PART;
}

/* All ranks are here, after the same step. */
static enum parting part(struct wk_context *ctx)
{
    struct error err = {0};
    int32_t stops = boundary_stopping(ctx), *leaves = calloc((size_t)ctx->world, sizeof(*leaves));
    int leaving = 0;
    int rc = leaves ? wk_all_gather(ctx->comm, &stops, leaves, 1, WK_I32, NULL)
                    : error_set(&err, WK_ENOMEM, "no memory to ask %d ranks", ctx->world);
    for (int rank = 0; rank < ctx->world && !rc; rank++)
        leaving += leaves[rank];
    bool some = leaving > 0 && leaving < ctx->world;
    if (!rc && some && ctx->is_sharded)
        rc = hand_over(ctx, leaves, &err);
    if (!rc && leaving < ctx->world && stops)
        report_release(ctx); /* the next rank 0 opens them after the barrier */
    /* Others may still receive parts from each other, and leaving would abort them. */
    if (!rc && leaving < ctx->world)
        (void)wk_barrier(ctx->comm, NULL);
    free(leaves);
    if (rc == WK_ENOMEM) {
        context_notice(ctx, "%s", err.text);
        rc = WK_EABORT;
    }
    if (rc) {
        (void)context_break(ctx, rc);
        return PARTING_AGAIN;
    }
    if (leaving == ctx->world)
        return PARTING_STOP;
    return stops ? PARTING_LEAVE : PARTING_RENEW;
}

enum parting parting_decide(struct wk_context *ctx)
{
    bool stops = boundary_stopping(ctx);
    if (ctx->phase == STEP_BROKEN)
        return stops ? PARTING_STOP : PARTING_RENEW;
    if (ctx->world == 1 && (stops || boundary_behind(ctx)))
        return stops ? PARTING_STOP : PARTING_RENEW;
    if (ctx->heard == HEARD_STOP)
        return PARTING_STOP;
    if (ctx->heard == HEARD_PART)
        return part(ctx);
    /* A rank with the whole state can save it alone. Without a session it must not, because the
     * others would be left, and may be the ones that save. */
    bool alone = ctx->session && !ctx->is_sharded;
    return alone && stops && is_pressing(ctx) ? PARTING_STOP : PARTING_TRAIN;
}
