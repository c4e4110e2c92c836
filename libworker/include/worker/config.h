/* Settings. A setting's value is from code, the environment, a config file or its default, in that
 * order of strength. Each setting remembers its source.
 *
 * A setting has a dotted name ("checkpoint.every"). In the environment it is MUSTER_ and the name
 * in capitals with underscores for dots (MUSTER_CHECKPOINT_EVERY). In a YAML file it is the path of
 * keys. MUSTER_CONFIG names the file if the program does not.
 *
 * A job spec can serve as config file: its `training` and `checkpoint` are read. An unknown key is
 * refused with its line and the nearest name. On rank 0 wk_open sends a notice for each value
 * without effect (fsdp.prefetch under strategy ddp, a variable MUSTER_STRATGEY).
 */
#ifndef WORKER_CONFIG_H
#define WORKER_CONFIG_H

#include <stdio.h>

#include <worker/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_context;

/* A value from the program. wk_open copies the texts. */
struct wk_setting {
    const char *name;  /* "gradient_accumulation_steps" */
    const char *value; /* as in the environment: "4" */
};

/* WK_FROM_JOB: from the job's `training`, `checkpoint` or `env`. It has the environment's strength,
 * because it arrives through the environment. */
enum wk_origin { WK_FROM_DEFAULT, WK_FROM_FILE, WK_FROM_ENVIRONMENT, WK_FROM_CODE, WK_FROM_JOB };

/* The value as text, or NULL for an unknown name. Valid until wk_close. */
WK_API const char *wk_config_value(const struct wk_context *ctx, const char *name);
WK_API enum wk_origin wk_config_origin(const struct wk_context *ctx, const char *name);

/* Print one line per setting: name, value and source. WK_EIO if `out` refuses it. */
WK_API int wk_config_print(const struct wk_context *ctx, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
