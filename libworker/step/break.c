#include "libworker/step/break.h"

#include "libworker/parallel/wires.h"
#include "libworker/step/context.h"
#include "libworker/step/stop.h"
#include "libworker/step/window.h"

enum { LOST_MAX = 64 };

void context_leave(struct wk_context *ctx)
{
    struct wk_comm *comm = membership_detach(&ctx->group);
    save_copied(ctx);
    if (comm) {
        units_settle(ctx);
        wires_leave(ctx->compute.wires);
        units_leave(ctx);
    }
    wk_comm_close(comm);
}

void context_report_lost(struct wk_context *ctx)
{
    int ranks[LOST_MAX], n = 0;
    if (ctx->group.comm)
        n = wk_comm_lost(ctx->group.comm, ranks, LOST_MAX);
    ctx->session->ops->lost(ctx->session, ctx->group.generation, ranks,
                            n < LOST_MAX ? n : LOST_MAX);
}

int context_cause(const struct wk_context *ctx, int code)
{
    struct wk_comm_status status = {0};
    int own = wires_failure(ctx->compute.wires);
    if (code != WK_EABORT)
        return code;
    if (own)
        return own;
    if (ctx->group.comm)
        wk_comm_status(ctx->group.comm, &status);
    return status.failure ? status.failure : code;
}

int context_break(struct wk_context *ctx, int code)
{
    if (ctx->step.phase == STEP_BROKEN)
        return ctx->failure.sticky.code;
    struct error err = {0};
    code = context_cause(ctx, code);
    (void)error_set(&err, code, "%s", units_sentence(ctx));
    context_explain(ctx, &err);
    bool mend = context_mendable(code) && ctx->session;
    /* Inform the others first: they wait for this rank in collectives that cannot complete. */
    if (ctx->group.comm)
        wk_comm_abort(ctx->group.comm);
    units_drain(ctx);
    if (ctx->saving.saver && ctx->cut.is_sharded)
        saver_cancel(ctx->saving.saver); /* a part of its checkpoint may never arrive */
    /* In a gang that is asked to stop a leaving rank is not a loss. */
    if (mend && code == WK_EPEER && !stop_requested(ctx)) {
        context_notice(ctx, "generation %llu is broken: %s%s%s",
                       (unsigned long long)ctx->group.generation, err.text, *err.hint ? "; " : "",
                       err.hint);
        context_report_lost(ctx);
    }
    context_leave(ctx);
    window_roll_back(ctx);
    if (mend)
        return 0;
    if (stop_requested(ctx))
        (void)error_set(&err, WK_ESTOPPED, "asked to stop");
    return context_fail(ctx, &err);
}

int context_result(struct wk_context *ctx, int rc)
{
    return rc ? context_break(ctx, rc) : ctx->failure.sticky.code;
}

int context_pass_failed(struct wk_context *ctx, int rc, const struct error *err)
{
    if (!rc)
        return 0;
    return context_mendable(rc) ? context_break(ctx, rc) : context_misuse(ctx, err);
}
