/* Making objects ready. Private to step/.
 *
 * prepare_settings.c reads what the settings ask for, prepare_objects.c takes the objects apart
 * into units, prepare.c gives them memory and brings them to one state.
 */
#ifndef STEP_PREPARE_H
#define STEP_PREPARE_H

#include <stdbool.h>

#include <worker/worker.h>

#include "common/base/error.h"
#include "libworker/parallel/strategy.h"

struct wk_context;

/* Settings that this build cannot honour or that contradict each other are refused, never ignored:
 * WK_EUNSUPPORTED, WK_EINVAL. */
int prepare_check_settings(const struct wk_context *ctx, struct error *err);

/* Whether parts of the state are on different ranks, and which. */
bool prepare_sharding(const struct wk_context *ctx, enum sharding *ret_sharding);

enum hook_kind prepare_hook(const struct wk_context *ctx);
const char *prepare_offload(const struct wk_context *ctx); /* the folder, or NULL */

/* Fill the context's units, loaders and schedulers, and check that they fit. After a failure the
 * context has none. WK_EINVAL, WK_EUNSUPPORTED, WK_ESTATE. */
int prepare_take(struct wk_context *ctx, const struct wk_object *objects, int n_objects,
                 struct error *err);

/* Notices, on rank 0, about what was prepared and may be not what was meant. */
void prepare_remark(struct wk_context *ctx);

/* Whether an object is one of those. */
bool prepare_knows(const struct wk_context *ctx, const void *object);

/* Objects become unprepared again and the arenas are freed. */
void prepare_undo(struct wk_context *ctx);

#endif
