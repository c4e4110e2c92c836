/* Texts and numbers of a job's specification, each parsed and bounded by its row of the table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/meant.h"
#include "common/base/name.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/model/spec_internal.h"

enum { PRIORITY_LOW = -100, PRIORITY_HIGH = 100, HINT_MAX = 64 };

/* The row's refusal, with the bound as its hint if the row has none. */
static int refuse_value(const struct job_field *row, const char *field, struct error *err)
{
    char most[HINT_MAX];
    (void)str_printf(most, sizeof(most), "%lld at most", (long long)row->max);
    return spec_refuse(err, field, row->accepts ? row->accepts : most, row->refusal);
}

static int parse_name(const struct job_field *row, const char *text, struct error *err)
{
    const char *hint = "lower-case letters, digits, '.' and '-', first a letter or digit, "
                       "63 characters at most";
    if (!spec_given(text))
        return spec_refuse(err, row->key, hint, "a name is required");
    if (name_valid(text))
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "'%.80s' is not a name", text);
    error_field(err, "%s", row->key);
    error_hint(err, "%s", hint);
    return E_INVALID_ARGUMENT;
}

static int parse_path(const struct job_field *row, const char *text, struct error *err)
{
    if ((int64_t)strlen(text) <= row->max)
        return 0;
    char most[HINT_MAX];
    (void)str_printf(most, sizeof(most), "%lld bytes at most", (long long)row->max);
    return spec_refuse(err, row->key, most, "the path is too long");
}

static int parse_size(const struct job_field *row, const char *text, int64_t *ret,
                      struct error *err)
{
    uint64_t bytes;
    const char *dot = strrchr(row->key, '.');
    int rc = parse_bytes(text, &bytes, err);
    if (!rc && (bytes == 0 || bytes > (uint64_t)row->max))
        rc = error_set(err, E_INVALID_ARGUMENT, "%s of '%s' is out of range",
                       dot ? dot + 1 : row->key, text);
    if (rc) {
        error_field(err, "%s", row->key);
        error_hint(err, "%s", row->accepts);
        return E_INVALID_ARGUMENT;
    }
    *ret = (int64_t)bytes;
    return 0;
}

static int parse_time(const struct job_field *row, const char *text, int64_t *ret_ms,
                      struct error *err)
{
    int rc = parse_duration(text, ret_ms, err);
    if (!rc && row->form == FORM_TIME && row->max && (*ret_ms < row->min || *ret_ms > row->max))
        return refuse_value(row, row->key, err);
    if (!rc)
        return 0;
    error_field(err, "%s", row->key);
    error_hint(err, "%s", row->accepts);
    return E_INVALID_ARGUMENT;
}

/* "1s..1m", "1s-1m", or one time for both. */
static int parse_times(const struct job_field *row, const char *text, struct spec_value *ret,
                       struct error *err)
{
    char low[64];
    const char *dots = strstr(text, ".."), *dash = strchr(text, '-');
    const char *end = dots ? dots : dash;
    size_t size = end ? (size_t)(end - text) : strlen(text);
    if (size >= sizeof(low))
        return refuse_value(row, row->key, err);
    memcpy(low, text, size);
    low[size] = 0;
    int rc = parse_time(row, low, &ret->low, err);
    ret->high = ret->low;
    if (!rc && end)
        rc = parse_time(row, end + (dots ? 2 : 1), &ret->high, err);
    if (rc)
        return rc;
    if (ret->low > ret->high || ret->high > row->max)
        return spec_refuse(err, row->key, "the shorter time first, a day at most", row->refusal);
    return 0;
}

static int parse_interval(const struct job_field *row, const char *text, struct error *err)
{
    int64_t value;
    const char *unit = strchr(text, ' ');
    if (!unit)
        return parse_time(row, text, &value, err);
    char number[24];
    size_t size = (size_t)(unit - text);
    bool ok = size < sizeof(number) && (strcmp(unit, " steps") == 0 || strcmp(unit, " step") == 0);
    if (ok) {
        memcpy(number, text, size);
        number[size] = 0;
        ok = !parse_i64(number, 1, INT64_MAX, &value, NULL);
    }
    return ok ? 0 : refuse_value(row, row->key, err);
}

static int choice_index(const struct job_field *row, const char *text)
{
    for (int i = 0; row->choices[i]; i++)
        if (strcmp(row->choices[i], text) == 0)
            return i;
    return -1;
}

static int parse_choice(const struct job_field *row, const char *text, int64_t *ret,
                        struct error *err)
{
    char all[128] = "";
    *ret = choice_index(row, text);
    if (*ret >= 0)
        return 0;
    for (int i = 0; row->choices[i]; i++) {
        size_t used = strlen(all);
        (void)str_printf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "", row->choices[i]);
    }
    error_set(err, E_INVALID_ARGUMENT, "'%.80s' is none of %s", text, all);
    error_field(err, "%s", row->key);
    if (!meant_hint(err, text, row->choices))
        error_hint(err, "one of %s", all);
    return E_INVALID_ARGUMENT;
}

/* "USR1@2m": the choice is low, the time is high. */
static int parse_signal(const struct job_field *row, const char *text, struct spec_value *ret,
                        struct error *err)
{
    char name[HINT_MAX];
    const char *at = strchr(text, '@');
    if (!at || (size_t)(at - text) >= sizeof(name))
        return refuse_value(row, row->key, err);
    memcpy(name, text, (size_t)(at - text));
    name[at - text] = 0;
    int rc = parse_choice(row, name, &ret->low, err);
    if (!rc)
        rc = parse_time(row, at + 1, &ret->high, err);
    if (rc)
        return rc;
    return ret->high < row->min ? refuse_value(row, row->key, err) : 0;
}

static int parse_priority(const struct job_field *row, const char *text, int64_t *ret,
                          struct error *err)
{
    static const int named[] = {PRIORITY_LOW, 0, PRIORITY_HIGH};
    int choice = choice_index(row, text);
    if (choice >= 0)
        *ret = named[choice];
    if (choice >= 0 || !parse_i64(text, row->min, row->max, ret, NULL))
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "'%.80s' is not a priority", text);
    error_field(err, "%s", row->key);
    error_hint(err, "%s", row->accepts);
    return E_INVALID_ARGUMENT;
}

static int parse_plain(const struct job_field *row, const char *text, struct error *err)
{
    return (int64_t)strlen(text) > row->max ? refuse_value(row, row->key, err) : 0;
}

/* An absent interval means "never": its fallback is for written specs only (common/rpc/spec.h). */
static const char *text_or_fallback(const struct job_field *row, const char *text)
{
    if (spec_given(text))
        return text;
    return row->fallback && row->form != FORM_INTERVAL ? row->fallback : "";
}

static struct spec_value absent_value(enum field_form form)
{
    bool text = form == FORM_PLAIN || form == FORM_PATH || form == FORM_INTERVAL;
    return (struct spec_value){.text = text ? "" : NULL, .low = form == FORM_CHOICE ? -1 : 0};
}

static int value_of_text(const struct job_field *row, const char *text, struct spec_value *ret,
                         struct error *err)
{
    text = text_or_fallback(row, text);
    if (!*text && row->form != FORM_NAME) {
        *ret = absent_value(row->form);
        return 0;
    }
    switch (row->form) {
    case FORM_PLAIN:
        ret->text = text;
        return parse_plain(row, text, err);
    case FORM_NAME:
        ret->text = text;
        return parse_name(row, text, err);
    case FORM_PATH:
        ret->text = text;
        return parse_path(row, text, err);
    case FORM_INTERVAL:
        ret->text = text;
        return parse_interval(row, text, err);
    case FORM_SIZE:
        return parse_size(row, text, &ret->low, err);
    case FORM_TIME:
        return parse_time(row, text, &ret->low, err);
    case FORM_TIMES:
        return parse_times(row, text, ret, err);
    case FORM_CHOICE:
        return parse_choice(row, text, &ret->low, err);
    case FORM_PRIORITY:
        return parse_priority(row, text, &ret->low, err);
    case FORM_SIGNAL:
        return parse_signal(row, text, ret, err);
    }
    return E_INVALID_ARGUMENT;
}

/* The fallback of a number. */
static int64_t fallback_number(const struct job_field *row)
{
    int64_t number = 0;
    if (row->fallback)
        (void)parse_i64(row->fallback, 0, INT64_MAX, &number, NULL);
    return number;
}

static int value_of_count(const struct job_field *row, uint32_t count, struct spec_value *ret,
                          struct error *err)
{
    ret->low = count == 0 && row->min > 0 ? fallback_number(row) : count;
    return ret->low > row->max ? refuse_value(row, row->key, err) : 0;
}

/* In thousandths. */
static int value_of_number(const struct job_field *row, double number, struct spec_value *ret,
                           struct error *err)
{
    if (!isfinite(number) || number < 0 || number > (double)row->max)
        return refuse_value(row, row->key, err);
    ret->low = number > 0 ? lround(number * 1000) : fallback_number(row) * 1000;
    if (ret->low == 0)
        ret->low = 1;
    return 0;
}

static int value_of_range(const struct job_field *row, uint32_t min, uint32_t max,
                          struct spec_value *ret, struct error *err)
{
    char field[HINT_MAX];
    if (min == 0)
        min = (uint32_t)fallback_number(row);
    if (max == 0)
        max = min;
    if (min > max) {
        error_set(err, E_INVALID_ARGUMENT, "%s.min is %u but %s.max is %u", row->key, min, row->key,
                  max);
        error_field(err, "%s.min", row->key);
        error_hint(err, "min must not be above max");
        return E_INVALID_ARGUMENT;
    }
    ret->low = min;
    ret->high = max;
    (void)str_printf(field, sizeof(field), "%s.max", row->key);
    return max > row->max ? refuse_value(row, field, err) : 0;
}

static int value_of_words(const struct job_field *row, const char *const *words, int count,
                          struct error *err)
{
    if (count <= 0 || !spec_given(words[0]))
        return spec_refuse(err, row->key, "command: [program, argument, ...]",
                           "a command is required");
    return count > row->max ? refuse_value(row, row->key, err) : 0;
}

static int value_of_pairs(const struct job_field *row, int count, struct error *err)
{
    return count > row->max ? refuse_value(row, row->key, err) : 0;
}

int spec_values(const struct spec_input *in, struct spec_value ret[JOB_FIELDS_COUNT],
                struct error *err)
{
    int rc = 0;
#define OF_TEXT(row, member, value)   value_of_text(row, in->member, value, err)
#define OF_COUNT(row, member, value)  value_of_count(row, in->member, value, err)
#define OF_NUMBER(row, member, value) value_of_number(row, in->member, value, err)
#define OF_RANGE(row, member, value)                                                               \
    value_of_range(row, in->member##_min, in->member##_max, value, err)
#define OF_WORDS(row, member, value)    value_of_words(row, in->member, in->member##_count, err)
#define OF_PAIRS(row, member, value)    value_of_pairs(row, in->member##_count, err)
#define OF_SETTING(row, member, value)  0 /* spec_check.c */
#define OF_SETTINGS(row, member, value) 0
#define VALUE(id, member, shape, ...)                                                              \
    ret[JOB_FIELD_##id] = (struct spec_value){0};                                                  \
    if (!rc)                                                                                       \
        rc = OF_##shape(&job_fields[JOB_FIELD_##id], member, &ret[JOB_FIELD_##id]);
    JOB_FIELDS(VALUE, VALUE)
    if (!rc && !in->has_restart)
        ret[JOB_FIELD_RESTART_MAX].low = fallback_number(&job_fields[JOB_FIELD_RESTART_MAX]);
    return rc;
}
