#include "libworker/step/stop.h"

#include <stdio.h>

#include "libworker/step/clock.h"
#include "libworker/step/context.h"
#include "libworker/step/signal.h"

bool stop_requested(struct wk_context *ctx)
{
    int64_t grace_ms;
    if (ctx->session && ctx->session->ops->stopping(ctx->session, &grace_ms))
        return true;
    return signal_count() > ctx->stop.signals_seen;
}

void stop_why(struct wk_context *ctx, char ret[STOP_WHY_MAX + 1])
{
    char why[SESSION_WHY_MAX + 1] = "";
    if (ctx->session && ctx->session->ops->why)
        ctx->session->ops->why(ctx->session, why);
    (void)snprintf(ret, STOP_WHY_MAX + 1, "%s%s", why[0] ? ": " : "", why);
}

bool stop_superseded(struct wk_context *ctx)
{
    return ctx->session && ctx->session->ops->target(ctx->session) > ctx->group.generation;
}

bool stop_presses(struct wk_context *ctx)
{
    int64_t now_ms = context_now_ms(), grace_ms;
    if (!ctx->session)
        return true;
    if (!ctx->stop.half_grace_ms) {
        if (!ctx->session->ops->stopping(ctx->session, &grace_ms))
            grace_ms = STOP_GRACE_MS;
        ctx->stop.half_grace_ms = now_ms + grace_ms / 2;
    }
    return now_ms >= ctx->stop.half_grace_ms;
}

void stop_say(struct wk_context *ctx, struct consensus *said)
{
    bool stops = stop_requested(ctx);
    said->stop = stops;
    said->pressing = stops && stop_presses(ctx);
    said->leave = !stops && stop_superseded(ctx);
}

void stop_hear(struct wk_context *ctx, const struct consensus *sums)
{
    float all = (float)ctx->group.world;
    if (sums->stop >= all || (sums->pressing > 0 && sums->leave == 0))
        ctx->stop.heard = HEARD_STOP;
    else if (sums->stop + sums->leave >= all || sums->pressing > 0)
        ctx->stop.heard = HEARD_DEPARTURE;
}
