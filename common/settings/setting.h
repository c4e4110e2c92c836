/* The table of training settings: libworker reads them, a job sets them under `training`, and
 * `muster env` and docs/settings.md show them. Names are dotted ("checkpoint.every"). In YAML the
 * dots are nested keys; in the environment the name is MUSTER_ and the name in capitals with
 * underscores.
 *
 * Constant data and pure functions; any thread. Codes are those of common/base/error.h, which
 * libworker's (worker/error.h) share.
 */
#ifndef SETTINGS_SETTING_H
#define SETTINGS_SETTING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/settings/setting_list_run.h"
#include "common/settings/setting_list_step.h"

/* The rows, in the order of the documents. A column is: identifier, name, kind, use, default, min,
 * max, choices, help. Bounds are of SETTING_INTEGER (as such), SETTING_NUMBER and SETTING_DURATION
 * (in ms). The choices of a number: ">", it is above its min, "<", it is below its max. */
#define SETTINGS_LIST(X) SETTINGS_OF_STEPS(X) SETTINGS_OF_RUNS(X)

enum setting {
#define X(id, name, kind, use, fallback, min, max, choices, help) SETTING_##id,
    SETTINGS_LIST(X)
#undef X
        SETTINGS_COUNT
};

enum setting_kind {
    SETTING_TEXT,
    SETTING_CHOICE,
    SETTING_INTEGER,
    SETTING_BOOL,           /* kept as 0 or 1 */
    SETTING_CHOICE_OR_SIZE, /* kept as 0, -1, … of its choices, or as bytes; false and true are the
                             * first two */
    SETTING_NUMBER,
    SETTING_DURATION, /* kept in ms */
    SETTING_INTERVAL, /* "200 steps" or a duration; kept as steps, or as -ms; 0 = never */
};

/* Where a job sets it. */
enum setting_use {
    SETTING_OF_JOB,        /* under `training` */
    SETTING_OF_CHECKPOINT, /* under `checkpoint`, which the coordinator reads too */
    SETTING_OF_MACHINE,    /* nowhere: differs between machines, or only without an agent */
};

struct setting_row {
    const char *name;
    enum setting_kind kind;
    enum setting_use use;
    const char *fallback;
    int64_t min, max;
    const char *choices; /* separated by '|', NULL allows anything */
    const char *help;
};

extern const struct setting_row setting_rows[SETTINGS_COUNT];

/* The number of the setting with this name, or -1. */
int settings_find(const char *name);

/* The nearest name, NULL if none is near. */
const char *settings_nearest(const char *name);

/* The hint for an unknown name: the nearest one, those of its section, or where all are listed. */
void settings_meant(struct error *err, const char *name);

/* True if some setting's name begins with `path` and a dot. */
bool settings_section(const char *path);

struct setting_parsed {
    int64_t integer; /* INTEGER, BOOL, DURATION, INTERVAL, CHOICE_OR_SIZE */
    double number;   /* NUMBER */
};

/* E_INVALID_ARGUMENT with the accepted values if `text` does not fit the row. */
int setting_parse(enum setting setting, const char *text, struct setting_parsed *ret,
                  struct error *err);

/* The choice of this number, "" if there is none; into ret, which it returns. */
enum { SETTING_CHOICE_MAX = 32 };
const char *setting_choice(enum setting setting, int64_t number, char ret[SETTING_CHOICE_MAX]);

/* "MUSTER_CHECKPOINT_EVERY" of "checkpoint.every" into ret; returns ret. Any name is allowed. */
enum { SETTING_ENV_MAX = 64 };
const char *setting_variable(const char *name, char ret[SETTING_ENV_MAX]);
const char *setting_env_name(enum setting setting, char ret[SETTING_ENV_MAX]);

#endif
