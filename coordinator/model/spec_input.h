/* A job's specification as it was submitted, in C values, before it is validated (spec.h). Made by
 * api_rpc/intake_spec.c from the message. All texts are borrowed.
 */
#ifndef MODEL_SPEC_INPUT_H
#define MODEL_SPEC_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/settings/job_field.h"

struct pair {
    const char *key;
    const char *value;
};

/* One member for each row of JOB_FIELDS. Absent texts are "" or NULL, absent
 * numbers 0. A setting that has a row of its own is among `training`.
 */
struct spec_input {
    const char *json; /* the whole spec, normalised */
    bool stored;      /* it was accepted once, perhaps under other rules: settings and env are not
                       * checked */
    bool has_restart; /* false: restart_max is its default */
#define INPUT_TEXT(member)   const char *member;
#define INPUT_COUNT(member)  uint32_t member;
#define INPUT_NUMBER(member) double member;
#define INPUT_RANGE(member)  uint32_t member##_min, member##_max;
#define INPUT_WORDS(member)                                                                        \
    const char *const *member;                                                                     \
    int member##_count;
#define INPUT_PAIRS(member)                                                                        \
    const struct pair *member;                                                                     \
    int member##_count;
#define INPUT_SETTINGS(member) INPUT_PAIRS(member)
#define INPUT_SETTING(member)
#define INPUT(id, member, shape, ...) INPUT_##shape(member)
    JOB_FIELDS(INPUT, INPUT)
#undef INPUT
#undef INPUT_SETTING
#undef INPUT_SETTINGS
#undef INPUT_PAIRS
#undef INPUT_WORDS
#undef INPUT_RANGE
#undef INPUT_NUMBER
#undef INPUT_COUNT
#undef INPUT_TEXT
};

#endif
