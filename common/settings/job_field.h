/* The table of job fields: every key of a job's file. It defines the defaults, the checks of
 * values, what makes two submits the same job, the flags of `muster submit`, the keys of a config
 * file, and the table in docs/jobs.md. A new field needs a row of job_field_list.h, a field of
 * JobSpec in proto/job.proto, and the code that acts on struct spec's value of it.
 *
 * Each row is part of a job's identity: two submits with one idempotency key are the same job if
 * all rows of both mean the same.
 *
 * Constant data and pure functions; any thread.
 */
#ifndef SETTINGS_JOB_FIELD_H
#define SETTINGS_JOB_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/settings/job_field_list.h"

enum job_field_id {
#define X(id, ...) JOB_FIELD_##id,
    JOB_FIELDS(X, X)
#undef X
        JOB_FIELDS_COUNT
};

/* The type in JobSpec, and in struct spec_input. */
enum field_shape {
    SHAPE_TEXT,
    SHAPE_COUNT,    /* 0 is absent where `min` is above 0 */
    SHAPE_NUMBER,   /* above 0 */
    SHAPE_RANGE,    /* {min, max}, both counts */
    SHAPE_WORDS,    /* a list of texts */
    SHAPE_PAIRS,    /* name -> text */
    SHAPE_SETTING,  /* a training setting that has a flag of its own */
    SHAPE_SETTINGS, /* training settings: common/settings/setting.h */
};

/* How a text is read. */
enum field_form {
    FORM_PLAIN,
    FORM_NAME,     /* [a-z0-9][a-z0-9.-]{0,62} */
    FORM_PATH,     /* the CLI makes a relative one absolute */
    FORM_SIZE,     /* "2GiB" */
    FORM_TIME,     /* "90m"; a bare number is in seconds */
    FORM_TIMES,    /* "1s..1m" */
    FORM_INTERVAL, /* "200 steps" or "10m"; a bare number is in steps */
    FORM_CHOICE,   /* one of `choices` */
    FORM_PRIORITY, /* one of `choices`, or a number */
    FORM_SIGNAL,   /* "USR1@2m": one of `choices`, and a time */
};

enum { AFTER_FAILURE_STOP, AFTER_FAILURE_RETRY }; /* of restart.on_failure and on_no_progress */
enum { FIELD_CHOICES_MAX = 6 };

struct job_field {
    const char *key;  /* "restart.max" */
    const char *help; /* one sentence: --help and docs/jobs.md */
    enum field_shape shape;
    enum field_form form;                       /* of SHAPE_TEXT */
    const char *fallback;                       /* the value of an absent field; NULL: none */
    const char *absent;                         /* without fallback: its meaning, in words */
    int64_t min, max;                           /* of the number, or of the length */
    const char *choices[FIELD_CHOICES_MAX + 1]; /* NULL-terminated */
    const char *refusal, *accepts;              /* of a bad value: the error and its hint */
    const char *flag;                           /* of `muster submit`; NULL: none */
};

extern const struct job_field job_fields[JOB_FIELDS_COUNT];

/* True if a job's file may have `name` at the top level: a key, or the section of one. */
bool job_field_top(const char *name);

/* The length of the section of `key` ("restart" of "restart.max"), 0 if it has none. */
size_t job_field_section(const char *key);

#endif
