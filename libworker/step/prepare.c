/* wk_prepare: all ranks bring the same objects to one state. */
#include "libworker/step/agree_state.h"
#include "libworker/step/bind.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/generation.h"
#include "libworker/step/prepare_objects.h"
#include "libworker/step/prepare_settings.h"

static int prepare(struct wk_context *ctx, const struct wk_object *objects, int n_objects,
                   struct error *err)
{
    int rc = prepare_check_settings(ctx, err);
    if (!rc)
        mixed_open(ctx);
    rc = rc ? rc : prepare_take(ctx, objects, n_objects, err);
    ctx->failure.misused = rc != 0;
    rc = rc ? rc : bind_all(ctx, err);
    if (rc)
        return rc;
    rc = context_meet(ctx, err);
    rc = rc ? rc : state_agree(ctx, err);
    if (!context_mendable(rc) || context_break(ctx, rc))
        return rc;
    *err = (struct error){0};
    return context_reform(ctx, err);
}

int wk_prepare(struct wk_context *ctx, const struct wk_object *objects, int n_objects)
{
    struct error err = {0};
    if (!ctx) {
        (void)error_set(&err, WK_EINVAL, "wk_prepare in NULL instead of a context");
        return error_keep(&err);
    }
    if (ctx->failure.sticky.code)
        return ctx->failure.sticky.code;
    if (n_objects < 0)
        (void)error_set(&err, WK_EINVAL, "prepare: n_objects is %d", n_objects);
    else if (n_objects && !objects)
        (void)error_set(&err, WK_EINVAL, "prepare: the list of %d objects is NULL", n_objects);
    if (err.code)
        return context_misuse(ctx, &err);
    if (n_objects == 0) {
        objects = ctx->owned.list;
        n_objects = ctx->owned.count;
    }
    if (ctx->prepared.n_units) {
        for (int i = 0; i < n_objects; i++) {
            if (prepare_knows(ctx, objects[i].object))
                continue;
            (void)error_set(&err, WK_ESTATE,
                            "wk_prepare was called before: prepare everything in one call");
            return context_misuse(ctx, &err);
        }
        return 0;
    }
    int rc = prepare(ctx, objects, n_objects, &err);
    if (!rc) {
        units_show_bound(ctx);
        prepare_remark(ctx);
        return 0;
    }
    (void)error_wrap(&err, "prepare");
    return context_fail(ctx, &err);
}
