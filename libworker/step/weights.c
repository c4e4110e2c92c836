/* Weights alone, in and out of a context's models. */
#include "libworker/pretrained/pretrained.h"
#include "libworker/step/context.h"
#include "libworker/step/gather.h"

static int fail(struct wk_context *ctx, int rc, const struct error *err)
{
    if (rc && ctx)
        (void)context_misuse(ctx, err);
    else if (rc)
        (void)error_keep_of(WK_OBJECT_MODEL, err);
    return rc;
}

/* Not an error of the context: training continues. */
static int refuse(struct wk_context *ctx, int rc, const struct error *err)
{
    if (!ctx)
        return error_keep(err);
    context_notice(ctx, "%s", err->text);
    return context_refuse(ctx, rc, "%s", err->text);
}

int wk_model_load(struct wk_context *ctx, struct wk_model *model, const char *path)
{
    struct error err = {0};
    int rc;
    if (!model)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_model_load");
    if (model->param_arena || unit_of_model(model))
        rc = error_set(&err, WK_ESTATE, "weights %.300s: load them before wk_prepare", path);
    else
        rc = pretrained_load(model, path, &err);
    return fail(ctx, rc, &err);
}

int wk_model_open(struct wk_context *ctx, const char *path, struct wk_model **ret_model)
{
    struct error err = {0};
    struct wk_model *model = NULL;
    int rc = pretrained_model(path, &model, &err);
    if (!rc)
        rc = pretrained_load(model, path, &err);
    if (rc)
        wk_model_free(model);
    else
        *ret_model = model;
    return fail(ctx, rc, &err);
}

int wk_model_save(struct wk_context *ctx, struct wk_model *model, const char *path,
                  const struct wk_export_options *options)
{
    struct unit *unit = unit_of_model(model);
    const struct wk_context *owner = unit ? unit->ctx : NULL;
    struct error err = {0};
    if (!model)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_model_save");
    int rc = unit ? unit_gather_master(unit) : 0;
    /* A broken generation is not an error of the loop's calls, but the data to write is missing. */
    if (!rc && owner && context_rests(owner))
        rc = error_set(&err, WK_EPEER, "weights %.300s: the generation ended, nothing was written",
                       path);
    else if (rc || (owner && owner->group.rank != 0))
        return rc;
    else
        rc = pretrained_save(model, path, options, &err);
    return rc ? refuse(ctx, rc, &err) : 0;
}
