/* Settings: every one of them can come from code, the environment, a config file or its default,
 * in that order of strength, and each remembers where its value came from.
 *
 * A setting is named with dots ("checkpoint.every"). In the environment it is MUSTER_ and the name
 * in capitals with the dots as underscores (MUSTER_CHECKPOINT_EVERY); in a YAML file it is the path
 * of keys. MUSTER_CONFIG names the file when the program does not. A job spec may serve as config
 * file: its `training` and `checkpoint` are read. Keys that are not settings are refused with their
 * line and the nearest name. What was said and counts for nothing (fsdp.prefetch under strategy
 * ddp, a variable MUSTER_STRATGEY) is a notice of wk_open on rank 0.
 */
#ifndef WORKER_CONFIG_H
#define WORKER_CONFIG_H

#include <stdio.h>

#include <worker/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_context;

/* A value given by the program. Texts are copied by wk_open. */
struct wk_setting {
    const char *name;  /* "gradient_accumulation_steps" */
    const char *value; /* as it would stand in the environment: "4" */
};

/* WK_FROM_JOB: the job's `training`, `checkpoint` or `env`, as strong as the environment, by which
 * it comes. */
enum wk_origin { WK_FROM_DEFAULT, WK_FROM_FILE, WK_FROM_ENVIRONMENT, WK_FROM_CODE, WK_FROM_JOB };

/* The value as text, or NULL for a name that is no setting. Valid until wk_close. */
WK_API const char *wk_config_value(const struct wk_context *ctx, const char *name);
WK_API enum wk_origin wk_config_origin(const struct wk_context *ctx, const char *name);

/* One line per setting: name, value and where it comes from. WK_EIO when `out` refuses it. */
WK_API int wk_config_print(const struct wk_context *ctx, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
