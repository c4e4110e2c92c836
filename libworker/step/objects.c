/* Data objects as programs make them: their failures become the context's error. */
#include "libworker/step/context.h"

static int tell(struct wk_context *ctx, int rc, const struct error *err)
{
    if (rc && ctx)
        (void)context_fail(ctx, err);
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

int wk_loader_new(struct wk_context *ctx, const struct wk_loader_options *options,
                  struct wk_loader **ret_loader)
{
    struct error err = {0};
    return tell(ctx, loader_new(options, ret_loader, &err), &err);
}
