/* What ranks ask about each other, and do together or in turn (worker/worker.h). */
#include <stdarg.h>
#include <string.h>

#include "libworker/data/split.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"

int wk_rank(const struct wk_context *ctx)
{
    return ctx->group.rank;
}

int wk_world(const struct wk_context *ctx)
{
    return ctx->group.world;
}

int wk_local_rank(const struct wk_context *ctx)
{
    return ctx->group.local_rank;
}

bool wk_is_main(const struct wk_context *ctx)
{
    return ctx->group.rank == 0;
}

uint64_t wk_generation(const struct wk_context *ctx)
{
    return ctx->group.generation;
}

struct wk_comm *wk_communicator(struct wk_context *ctx)
{
    return context_rests(ctx) ? NULL : ctx->group.comm;
}

static bool is_cut_off(const struct wk_context *ctx)
{
    return context_idle(ctx) || !ctx->group.comm;
}

int wk_wait_for_all(struct wk_context *ctx)
{
    return is_cut_off(ctx) ? ctx->failure.sticky.code
                           : context_result(ctx, wk_barrier(ctx->group.comm, NULL));
}

static bool goes_first(const struct wk_context *ctx, bool local)
{
    return local ? ctx->group.local_rank == 0 : ctx->group.rank == 0;
}

int wk_main_first_begin(struct wk_context *ctx, bool local)
{
    return goes_first(ctx, local) ? ctx->failure.sticky.code : wk_wait_for_all(ctx);
}

int wk_main_first_end(struct wk_context *ctx, bool local)
{
    return goes_first(ctx, local) ? wk_wait_for_all(ctx) : ctx->failure.sticky.code;
}

void wk_split(const struct wk_context *ctx, int64_t total, bool pad, int64_t *ret_first,
              int64_t *ret_count)
{
    split_share(total, ctx->group.rank, ctx->group.world, ret_first, ret_count);
    if (pad)
        *ret_count = (total + ctx->group.world - 1) / ctx->group.world;
}

void wk_trigger(struct wk_context *ctx)
{
    ctx->loop.triggered = true;
}

bool wk_triggered(struct wk_context *ctx)
{
    int32_t pulled = ctx->loop.triggered;
    if (is_cut_off(ctx))
        return false;
    ctx->loop.triggered = false;
    if (context_result(ctx, wk_all_reduce(ctx->group.comm, &pulled, 1, WK_I32, WK_MAX, NULL)) ||
        context_rests(ctx))
        return false;
    ctx->loop.all_triggered = pulled;
    return pulled;
}

void wk_print(struct wk_context *ctx, FILE *out, const char *fmt, ...)
{
    va_list ap;
    if (ctx->group.rank != 0)
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
        (void)fprintf(out, "rank %d: %s\n", ctx->group.rank, wk_last_error(ctx));
}

bool wk_is_local_main(const struct wk_context *ctx)
{
    return ctx->group.local_rank == 0;
}

bool wk_is_last(const struct wk_context *ctx)
{
    return ctx->group.rank == ctx->group.world - 1;
}
