#include "libworker/step/owned.h"

#include "libworker/step/context.h"

/* Where an object stores its owner; NULL for an invalid object. */
static const void **owner_of(struct wk_object object)
{
    switch (object.kind) {
    case WK_OBJECT_MODEL:
        return &((struct wk_model *)object.object)->owned_by;
    case WK_OBJECT_OPTIMIZER:
        return &((struct wk_optimizer *)object.object)->owned_by;
    case WK_OBJECT_LOADER:
        return &((struct wk_loader *)object.object)->owned_by;
    case WK_OBJECT_SCHEDULER:
        return &((struct wk_scheduler *)object.object)->owned_by;
    }
    return NULL;
}

/* The context it is prepared in, or NULL. */
static const struct wk_context *user_of(struct wk_object object)
{
    const struct unit *unit = NULL;
    if (object.kind == WK_OBJECT_LOADER)
        return ((const struct wk_loader *)object.object)->owner;
    if (object.kind == WK_OBJECT_MODEL)
        unit = unit_of_model(object.object);
    else if (object.kind == WK_OBJECT_OPTIMIZER)
        unit = unit_of_optimizer(object.object);
    else if (object.kind == WK_OBJECT_SCHEDULER)
        unit = unit_of_optimizer(((const struct wk_scheduler *)object.object)->optimizer);
    return unit ? unit->ctx : NULL;
}

bool owned_elsewhere(const struct wk_context *ctx, struct wk_object object)
{
    const void **owner = owner_of(object);
    return owner && *owner && *owner != ctx;
}

static int check_own(const struct wk_context *ctx, struct wk_object object, struct error *err)
{
    const char *kind = unit_kind_name(object.kind);
    const struct wk_context *user;
    if (!owner_of(object))
        return error_set(err, WK_EINVAL, "%d is no kind of object", (int)object.kind);
    if (owned_elsewhere(ctx, object))
        return error_set(err, WK_ESTATE, "wk_own of %s that another context owns", kind);
    user = user_of(object);
    if (user && user != ctx)
        return error_set(err, WK_ESTATE, "wk_own of %s that is prepared in another context", kind);
    if (ctx->owned.count == WK_OWNED_MAX)
        return error_set(err, WK_ENOMEM, "a context owns at most %d objects", WK_OWNED_MAX);
    return 0;
}

int wk_own(struct wk_context *ctx, struct wk_object object)
{
    struct error err = {0};
    if (!ctx) {
        (void)error_set(&err, WK_EINVAL, "wk_own by NULL instead of a context");
        return error_keep(&err);
    }
    if (!object.object)
        return ctx->failure.sticky.code;
    const void **owner = owner_of(object);
    if (owner && *owner == ctx)
        return ctx->failure.sticky.code;
    if (check_own(ctx, object, &err))
        return context_misuse(ctx, &err);
    *owner = ctx;
    ctx->owned.list[ctx->owned.count++] = object;
    return ctx->failure.sticky.code;
}

void owned_free_object(struct wk_object object)
{
    switch (object.kind) {
    case WK_OBJECT_MODEL:
        wk_model_free(object.object);
        return;
    case WK_OBJECT_OPTIMIZER:
        wk_optimizer_free(object.object);
        return;
    case WK_OBJECT_LOADER:
        wk_loader_free(object.object);
        return;
    case WK_OBJECT_SCHEDULER:
        wk_scheduler_free(object.object);
        return;
    }
}

/* Loaders may outlive the context. */
static void forget_loaders(struct owned *owned)
{
    while (!list_empty(&owned->loaders)) {
        struct wk_loader *loader = list_entry(owned->loaders.next, struct wk_loader, made);
        loader->maker = NULL;
        list_remove(&loader->made);
    }
}

/* Objects that refer to others were made after them. */
void owned_free(struct wk_context *ctx)
{
    forget_loaders(&ctx->owned);
    while (ctx->owned.count > 0) {
        struct wk_object object = ctx->owned.list[--ctx->owned.count];
        *owner_of(object) = NULL;
        owned_free_object(object);
    }
}
