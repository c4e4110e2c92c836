#include "libworker/step/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "libworker/step/context.h"

bool context_mendable(int code)
{
    /* A collective's timeout is not recoverable this way: it would happen again. */
    return code == WK_EPEER || code == WK_EABORT;
}

/* Lost ranks are not the program's fault, except those that left with a goodbye. */
void context_explain(const struct wk_context *ctx, struct error *err)
{
    int lost;
    if (!ctx->group.comm || *err->hint || !*units_sentence(ctx))
        return;
    if (err->code == WK_EPEER && !wk_comm_lost(ctx->group.comm, &lost, 1))
        error_hint(err,
                   "its loop ended before the others', by an error of its own, which it reports, "
                   "or a break: to leave together call wk_trigger on any rank and ask wk_triggered "
                   "on all");
    if (err->code == WK_EMISMATCH)
        error_hint(err, "the ranks' loops have parted: all make the same calls and take as many "
                        "batches, also in an evaluation; what one finds out all learn by "
                        "wk_triggered or wk_reduce_value");
}

int context_fail(struct wk_context *ctx, const struct error *err)
{
    if (ctx->failure.sticky.code)
        return ctx->failure.sticky.code;
    ctx->failure.sticky = *err;
    context_explain(ctx, &ctx->failure.sticky);
    if (*ctx->failure.sticky.hint) { /* programs see one sentence, so append the hint */
        size_t used = strlen(ctx->failure.sticky.text);
        (void)snprintf(ctx->failure.sticky.text + used, sizeof(ctx->failure.sticky.text) - used,
                       "; %s", ctx->failure.sticky.hint);
    }
    return ctx->failure.sticky.code;
}

int context_misuse(struct wk_context *ctx, const struct error *err)
{
    ctx->failure.misused = ctx->failure.misused || !ctx->failure.sticky.code;
    return context_fail(ctx, err);
}

int context_misuse_text(struct wk_context *ctx, int code, const char *text)
{
    struct error err = {0};
    (void)error_set(&err, code, "%s", text);
    return context_misuse(ctx, &err);
}

int context_refuse(struct wk_context *ctx, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(ctx->failure.refused, sizeof(ctx->failure.refused), fmt, ap);
    va_end(ap);
    return code;
}

int context_hear(void *arg, const struct error *err, bool lasting)
{
    return lasting ? context_misuse(arg, err) : context_refuse(arg, err->code, "%s", err->text);
}

int wk_status(const struct wk_context *ctx)
{
    return ctx->failure.sticky.code;
}

const char *wk_last_error(const struct wk_context *ctx)
{
    if (!ctx)
        return error_kept();
    return ctx->failure.sticky.code ? ctx->failure.sticky.text : ctx->failure.refused;
}
