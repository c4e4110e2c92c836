/* A set of values for the table of settings (common/settings/setting.h, worker/config.h).
 *
 * Reading is strict: a value that does not fit its type, its bounds or its choices is refused with
 * its source. `struct settings` is plain data except for one arena. It belongs to the caller of
 * settings_read, which frees it with settings_fini. One thread until read, then any.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <worker/config.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/settings/setting.h"

struct setting_value {
    const char *text; /* in the arena or the table, never NULL */
    int64_t integer;  /* INTEGER, BOOL, DURATION, INTERVAL, CHOICE_OR_SIZE */
    double number;    /* NUMBER */
    enum wk_origin origin;
    const char *where; /* "MUSTER_SEED", "run.yaml:3"; "" for default and code */
};

struct settings {
    struct setting_value values[SETTINGS_COUNT];
    struct arena arena;
};

/* The source of environment variables: getenv in programs, a table in tests. */
struct environment {
    const char *(*get)(void *arg, const char *name); /* NULL if not set */
    void *arg;
    const char *const *(*all)(void *arg); /* NAME=VALUE entries and a NULL; may be NULL */
};

struct settings_input {
    const struct wk_setting *code; /* [n_code] */
    int n_code;
    const struct environment *environment;
    const char *file; /* NULL: MUSTER_CONFIG if set */
};

/* WK_EINVAL with what, where and what would be accepted; WK_ENOTFOUND or WK_EIO for the file. On
 * failure nothing needs to be freed. */
int settings_read(const struct settings_input *input, struct settings *ret, struct error *err);
void settings_fini(struct settings *settings);

/* Set one value, if `origin` is at least as strong as what is there. */
struct setting_source {
    enum wk_origin origin;
    const char *where;
};
int settings_set(struct settings *settings, enum setting setting, const char *text,
                 const struct setting_source *source, struct error *err);

/* Take the values of a YAML document. `name` is shown in errors. */
int settings_read_yaml(struct settings *settings, const char *name, const char *text, size_t size,
                       struct error *err);

/* For code: the typed values. */
static inline int64_t settings_integer(const struct settings *settings, enum setting setting)
{
    return settings->values[setting].integer;
}

static inline double settings_number(const struct settings *settings, enum setting setting)
{
    return settings->values[setting].number;
}

static inline const char *settings_text(const struct settings *settings, enum setting setting)
{
    return settings->values[setting].text;
}

/* "default", "config file", "environment", "code", "job". */
const char *setting_origin_name(enum wk_origin origin);

int settings_print(const struct settings *settings, FILE *out);

#endif
