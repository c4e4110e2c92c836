#include "libworker/step/notice.h"

#include <stdarg.h>

#include "common/base/str.h"
#include "libworker/step/context.h"

void context_notice(struct wk_context *ctx, const char *fmt, ...)
{
    struct notices *notices = &ctx->notices;
    char text[NOTICE_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)pthread_mutex_lock(&notices->lock);
    (void)str_copy(notices->last, sizeof(notices->last), text);
    (void)pthread_mutex_unlock(&notices->lock);
    if (notices->call)
        notices->call(notices->arg, text);
    else if (notices->file)
        (void)fprintf(notices->file, "muster: rank %d: %s\n", membership_rank(&ctx->group), text);
}

const char *wk_last_notice(struct wk_context *ctx)
{
    struct notices *notices = &ctx->notices;
    (void)pthread_mutex_lock(&notices->lock);
    (void)str_copy(notices->shown, sizeof(notices->shown), notices->last);
    (void)pthread_mutex_unlock(&notices->lock);
    return notices->shown;
}
