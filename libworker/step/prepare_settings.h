/* The settings that wk_prepare uses, and whether they are compatible. */
#ifndef STEP_PREPARE_SETTINGS_H
#define STEP_PREPARE_SETTINGS_H

#include "common/base/error.h"
#include "libworker/parallel/strategy_options.h"

struct wk_context;

/* Refuse settings that this build cannot honour or that contradict each other; they are never
 * ignored. WK_EUNSUPPORTED, WK_EINVAL. */
int prepare_check_settings(const struct wk_context *ctx, struct error *err);

enum strategy_kind prepare_strategy(const struct wk_context *ctx);
enum hook_kind prepare_hook(const struct wk_context *ctx);
const char *prepare_offload(const struct wk_context *ctx); /* the folder, or NULL */

#endif
