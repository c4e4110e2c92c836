#include "libworker/step/departure.h"

#include <stdlib.h>

#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/hand_off.h"

/* All ranks are here, after the same step. */
static enum departure separate(struct wk_context *ctx)
{
    struct error err = {0};
    int32_t stops = stop_requested(ctx),
            *leaves = calloc((size_t)ctx->group.world, sizeof(*leaves));
    int leaving = 0;
    int rc = leaves ? wk_all_gather(ctx->group.comm, &stops, leaves, 1, WK_I32, NULL)
                    : error_set(&err, WK_ENOMEM, "no memory to ask %d ranks", ctx->group.world);
    for (int rank = 0; rank < ctx->group.world && !rc; rank++)
        leaving += leaves[rank];
    bool some = leaving > 0 && leaving < ctx->group.world;
    if (!rc && some && ctx->cut.is_sharded)
        rc = hand_off(ctx, leaves, &err);
    if (!rc && leaving < ctx->group.world && stops)
        report_release(ctx); /* the next rank 0 opens them after the barrier */
    /* Others may still receive parts from each other, and leaving would abort them. */
    if (!rc && leaving < ctx->group.world)
        (void)wk_barrier(ctx->group.comm, NULL);
    free(leaves);
    if (rc == WK_ENOMEM) {
        context_notice(ctx, "%s", err.text);
        rc = WK_EABORT;
    }
    if (rc) {
        (void)context_break(ctx, rc);
        return DEPARTURE_AGAIN;
    }
    if (leaving == ctx->group.world)
        return DEPARTURE_STOP;
    return stops ? DEPARTURE_LEAVE : DEPARTURE_RENEW;
}

enum departure departure_decide(struct wk_context *ctx)
{
    bool stops = stop_requested(ctx);
    if (ctx->step.phase == STEP_BROKEN)
        return stops ? DEPARTURE_STOP : DEPARTURE_RENEW;
    if (ctx->group.world == 1 && (stops || stop_superseded(ctx)))
        return stops ? DEPARTURE_STOP : DEPARTURE_RENEW;
    if (ctx->stop.heard == HEARD_STOP)
        return DEPARTURE_STOP;
    if (ctx->stop.heard == HEARD_DEPARTURE)
        return separate(ctx);
    /* A rank with the whole state can save it alone. Without a session it must not, because the
     * others would be left, and may be the ones that save. */
    bool alone = ctx->session && !ctx->cut.is_sharded;
    return alone && stops && stop_presses(ctx) ? DEPARTURE_STOP : DEPARTURE_NONE;
}
