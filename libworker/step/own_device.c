/* Passes of a program's own that compute on a device (worker/device.h). */
#include <worker/device.h>

#include "libworker/device/native.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/custom_device.h"
#include "libworker/step/context.h"

int wk_passes_on(struct wk_model *model, const char *device)
{
    struct error err = {0};
    if (!model)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_passes_on");
    if (!model_is_custom(model))
        (void)error_set(&err, WK_EINVAL, "wk_passes_on of a model with libworker's own passes");
    else if (unit_of_model(model))
        (void)error_set(&err, WK_ESTATE, "wk_passes_on after wk_prepare: call it before");
    else if (custom_device_add(custom_device_of(model), device, &err))
        (void)error_wrap(&err, "wk_passes_on");
    return err.code ? error_tell(&model->ear, &err, true) : 0;
}

struct wk_place wk_model_place(struct wk_model *model)
{
    const struct unit *unit = unit_of_model(model);
    struct wk_place nowhere = {.gpu = -1};
    if (!unit || !model->queue)
        return nowhere;
    struct queue_native native = queue_native(model->queue);
    return (struct wk_place){.device = device_name(queue_device(model->queue)),
                             .gpu = native.number,
                             .stream = native.stream};
}

int wk_send_batch(struct wk_model *model, const struct wk_batch *batch, struct wk_batch *ret_batch)
{
    struct unit *unit = unit_of_model(model);
    struct error err = {0};
    *ret_batch = (struct wk_batch){0};
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_send_batch");
    struct wk_context *ctx = unit->ctx;
    if (!batch)
        return context_misuse_text(ctx, WK_EINVAL, "wk_send_batch was given no batch");
    if (!model_is_custom(model))
        return context_misuse_text(ctx, WK_EINVAL,
                                   "wk_send_batch of a model with libworker's own passes");
    int rc = custom_device_send(custom_device_of(model), model->queue, batch, ret_batch, &err);
    if (rc == WK_EINVAL)
        return context_misuse(ctx, &err);
    return rc ? context_fail(ctx, &err) : ctx->failure.sticky.code;
}

int wk_set_loss_at(struct wk_model *model, const double *loss)
{
    struct unit *unit = unit_of_model(model);
    if (!unit)
        return unit_missing(model, WK_OBJECT_MODEL, "wk_set_loss_at");
    struct wk_context *ctx = unit->ctx;
    if (!loss || !model_is_custom(model))
        return context_misuse_text(ctx, WK_EINVAL,
                                   loss ? "wk_set_loss_at of a model with libworker's own passes"
                                        : "wk_set_loss_at was given no address");
    int rc = wk_set_loss(model, 0);
    if (rc || context_idle(ctx))
        return rc;
    custom_device_of(model)->loss = loss;
    sums_keep_loss(unit);
    unit->keeps_loss = true;
    return 0;
}
