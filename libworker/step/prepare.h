/* Preparing objects. Private to step/.
 *
 * prepare_settings.c reads the settings, prepare_objects.c sorts the objects into units, prepare.c
 * allocates their memory and brings all ranks to one state.
 */
#ifndef STEP_PREPARE_H
#define STEP_PREPARE_H

#include <stdbool.h>

#include <worker/worker.h>

#include "common/base/error.h"
#include "libworker/parallel/strategy.h"

struct wk_context;

/* Refuse settings that this build cannot honour or that contradict each other; they are never
 * ignored. WK_EUNSUPPORTED, WK_EINVAL. */
int prepare_check_settings(const struct wk_context *ctx, struct error *err);

enum strategy_kind prepare_strategy(const struct wk_context *ctx);
enum hook_kind prepare_hook(const struct wk_context *ctx);
const char *prepare_offload(const struct wk_context *ctx); /* the folder, or NULL */

/* Fill the context's units, loaders and schedulers, and check that they match. On failure the
 * context has none. WK_EINVAL, WK_EUNSUPPORTED, WK_ESTATE. */
int prepare_take(struct wk_context *ctx, const struct wk_object *objects, int n_objects,
                 struct error *err);

/* Notices, on rank 0, about prepared objects that are probably a mistake. */
void prepare_remark(struct wk_context *ctx);

/* True for an object that was prepared here. */
bool prepare_knows(const struct wk_context *ctx, const void *object);

/* Make the objects unprepared again and free the arenas. */
void prepare_undo(struct wk_context *ctx);

#endif
