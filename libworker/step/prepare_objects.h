/* Sorts the objects of wk_prepare into units. Owned by the program's thread. */
#ifndef STEP_PREPARE_OBJECTS_H
#define STEP_PREPARE_OBJECTS_H

#include <stdbool.h>

#include <worker/worker.h>

#include "common/base/error.h"

/* Fill the context's units, loaders and schedulers, and check that they match. On failure the
 * context has none. WK_EINVAL, WK_EUNSUPPORTED, WK_ESTATE. */
int prepare_take(struct wk_context *ctx, const struct wk_object *objects, int n_objects,
                 struct error *err);

/* Notices, on rank 0, about prepared objects that are probably a mistake. */
void prepare_remark(struct wk_context *ctx);

/* True for an object that was prepared here. */
bool prepare_knows(const struct wk_context *ctx, const void *object);

#endif
