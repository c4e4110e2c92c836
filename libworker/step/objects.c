/* Objects that programs make in a context: their failures become the context's error; without a
 * context they stay with the thread. */
#include <string.h>

#include "libworker/step/context.h"

static int tell(struct wk_context *ctx, int rc, const struct error *err)
{
    if (rc && ctx)
        (void)context_misuse(ctx, err);
    else if (rc)
        (void)error_keep(err);
    return rc;
}

int wk_source_open(struct wk_context *ctx, const char *path, enum wk_source_format format,
                   struct wk_source **ret_source)
{
    struct error err = {0};
    return tell(ctx, source_open(path, format, ret_source, &err), &err);
}

int wk_source_bytes(struct wk_context *ctx, const void *data, size_t size,
                    struct wk_source **ret_source)
{
    struct error err = {0};
    return tell(ctx, source_bytes(data, size, ret_source, &err), &err);
}

int wk_source_rows(struct wk_context *ctx, const struct wk_row_options *options,
                   struct wk_source **ret_source)
{
    struct error err = {0};
    return tell(ctx, source_rows(options, ret_source, &err), &err);
}

int wk_loader_new(struct wk_context *ctx, const struct wk_loader_options *options,
                  struct wk_loader **ret_loader)
{
    struct error err = {0};
    *ret_loader = NULL;
    int rc = loader_new(options, ret_loader, &err);
    if (rc)
        (void)error_keep_of(WK_OBJECT_LOADER, &err);
    if (rc || !ctx)
        return tell(ctx, rc, &err);
    (*ret_loader)->maker = ctx;
    list_push_back(&ctx->owned.loaders, &(*ret_loader)->made);
    return 0;
}

int wk_loader_seek(struct wk_loader *loader, int64_t position)
{
    struct wk_context *ctx = loader ? loader->owner : NULL;
    struct error err = {0};
    int rc = 0;
    if (!loader)
        return unit_missing(loader, WK_OBJECT_LOADER, "wk_loader_seek");
    if (ctx && !loader->options.evaluation)
        rc = error_set(&err, WK_ESTATE,
                       "wk_loader_seek of a training loader: the context keeps its position; a "
                       "loader for evaluation has `evaluation` set");
    else if (loader_seek(loader, position))
        rc = error_set(&err, WK_EINVAL, "wk_loader_seek to sample %lld", (long long)position);
    return tell(ctx ? ctx : loader->maker, rc, &err);
}

static int new_optimizer(const char *kind, const struct wk_optimizer_options *options,
                         struct wk_optimizer **ret)
{
    double rate = options->rate, decay = options->weight_decay;
    struct wk_adamw_options adam = {rate, 0.9, options->beta2 > 0 ? options->beta2 : 0.999, 1e-8,
                                    decay};
    if (strcmp(kind, "adamw") == 0)
        return wk_adamw_new(&adam, ret);
    if (strcmp(kind, "adam") == 0)
        return wk_adam_new(&adam, ret);
    if (strcmp(kind, "sgd") == 0)
        return wk_sgd_new(&(struct wk_sgd_options){rate, 0.9, false, decay}, ret);
    if (strcmp(kind, "lion") == 0)
        return wk_lion_new(&(struct wk_lion_options){rate, 0.9, 0.99, decay}, ret);
    if (strcmp(kind, "adafactor") == 0)
        return wk_adafactor_new(
            &(struct wk_adafactor_options){rate, 0.8, 1e-30, 1e-3, 1, false, decay}, ret);
    return wk_muon_new(&(struct wk_muon_options){rate, 0.95, true, decay, adam}, ret);
}

int wk_optimizer_new(struct wk_context *ctx, const struct wk_optimizer_options *options,
                     struct wk_optimizer **ret_optimizer)
{
    struct error err = {0};
    *ret_optimizer = NULL;
    if (!ctx)
        return tell(
            ctx, error_set(&err, WK_EINVAL, "wk_optimizer_new in NULL instead of a context"), &err);
    if (ctx->failure.sticky.code)
        return ctx->failure.sticky.code;
    if (optimizer_options_check(options, &err))
        return tell(ctx, err.code, &err);
    const char *kind = settings_text(&ctx->settings, SETTING_OPTIMIZER);
    int rc = new_optimizer(kind, options, ret_optimizer);
    if (rc)
        (void)error_set(&err, rc, "optimizer %s: %s", kind, error_kept_of(WK_OBJECT_OPTIMIZER));
    return tell(ctx, rc, &err);
}
