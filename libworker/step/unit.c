#include "libworker/step/unit.h"

#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"

struct unit *unit_of_model(const struct wk_model *model)
{
    return model ? model->unit : NULL;
}

const char *unit_kind_name(enum wk_object_kind kind)
{
    switch (kind) {
    case WK_OBJECT_MODEL:
        return "a model";
    case WK_OBJECT_OPTIMIZER:
        return "an optimizer";
    case WK_OBJECT_LOADER:
        return "a loader";
    case WK_OBJECT_SCHEDULER:
        return "a scheduler";
    }
    return "an object";
}

void unit_why_null(enum wk_object_kind kind, struct error *err)
{
    const char *why = (unsigned)kind < ERROR_KINDS ? error_kept_of((int)kind) : "";
    size_t used = strlen(err->text);
    if (*why)
        (void)str_printf(err->text + used, sizeof(err->text) - used, ": %s", why);
}

int unit_missing(const void *object, enum wk_object_kind kind, const char *call)
{
    struct error err = {0};
    if (object) {
        (void)error_set(&err, WK_ESTATE, "%s of %s that wk_prepare was not given", call,
                        unit_kind_name(kind));
    } else {
        (void)error_set(&err, WK_EINVAL, "%s of NULL instead of %s", call, unit_kind_name(kind));
        unit_why_null(kind, &err);
    }
    return error_keep(&err);
}

struct unit *unit_of_optimizer(const struct wk_optimizer *optimizer)
{
    return optimizer ? optimizer->unit : NULL;
}

void unit_clear(struct unit *unit)
{
    sums_clear(unit);
    buffers_drop(unit->model);
    unit->micro = 0;
    unit->begun = false;
    unit->weights = 0;
    unit->counts.batches = unit->counts.left = 0;
    unit->joined = 0; /* another window on the same data has the same weight */
}
