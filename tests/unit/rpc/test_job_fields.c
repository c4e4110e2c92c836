/* The table of job fields agrees with the schema and with its page. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/base/buf.h"
#include "common/base/str.h"
#include "common/settings/job_field.h"
#include "proto/job.pb-c.h"

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type,
                                                const char *key)
{
    char name[64];
    size_t size = strcspn(key, ".");
    (void)snprintf(name, sizeof(name), "%.*s", (int)size, key);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(type, name);
    return field && key[size] ? field_of(field->descriptor, key + size + 1) : field;
}

static bool has_shape(const ProtobufCFieldDescriptor *field, enum field_shape shape)
{
    bool list = field->label == PROTOBUF_C_LABEL_REPEATED;
    switch (shape) {
    case SHAPE_TEXT:
        return field->type == PROTOBUF_C_TYPE_STRING && !list;
    case SHAPE_COUNT:
        return field->type == PROTOBUF_C_TYPE_UINT32 && !list;
    case SHAPE_NUMBER:
        return field->type == PROTOBUF_C_TYPE_DOUBLE && !list;
    case SHAPE_RANGE:
    case SHAPE_SETTINGS:
        return field->type == PROTOBUF_C_TYPE_MESSAGE && !list;
    case SHAPE_WORDS:
        return field->type == PROTOBUF_C_TYPE_STRING && list;
    case SHAPE_PAIRS:
        return field->type == PROTOBUF_C_TYPE_MESSAGE && list;
    case SHAPE_SETTING:
        break;
    }
    return false;
}

Test(job_fields, each_row_has_a_field_of_its_type_in_the_schema)
{
    for (int i = 0; i < JOB_FIELDS_COUNT; i++) {
        const struct job_field *row = &job_fields[i];
        if (row->shape == SHAPE_SETTING)
            continue;
        const ProtobufCFieldDescriptor *field = field_of(&muster__job_spec__descriptor, row->key);
        cr_expect(field && has_shape(field, row->shape), "JobSpec has no such %s", row->key);
    }
}

/* The row of a key; NULL if it has none. `ret_section`: rows begin with the key and a dot. */
static const struct job_field *row_of(const char *key, bool *ret_section)
{
    const struct job_field *found = NULL;
    size_t size = strlen(key);
    *ret_section = false;
    for (int i = 0; i < JOB_FIELDS_COUNT; i++) {
        const struct job_field *row = &job_fields[i];
        if (strcmp(row->key, key) == 0)
            found = row;
        else if (str_starts(row->key, key) && row->key[size] == '.')
            *ret_section = true;
    }
    return found;
}

static void expect_rows(const ProtobufCMessageDescriptor *type, const char *prefix, bool range)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        char key[128], part[160];
        bool section;
        if (range && (strcmp(field->name, "min") == 0 || strcmp(field->name, "max") == 0))
            continue;
        (void)snprintf(key, sizeof(key), "%s%s", prefix, field->name);
        (void)snprintf(part, sizeof(part), "%s.", key);
        const struct job_field *row = row_of(key, &section);
        cr_expect(row || section,
                  "JOB_FIELDS of common/settings/job_field_list.h has no row for %s", key);
        if (row ? row->shape == SHAPE_RANGE : section)
            expect_rows(field->descriptor, part, row != NULL);
    }
}

Test(job_fields, each_field_of_the_schema_has_a_row)
{
    expect_rows(&muster__job_spec__descriptor, "", false);
}

Test(job_fields, a_row_says_what_an_absent_value_becomes_and_has_a_refusal_for_its_bound)
{
    for (int i = 0; i < JOB_FIELDS_COUNT; i++) {
        const struct job_field *row = &job_fields[i];
        bool bounded =
            row->shape != SHAPE_TEXT && row->shape != SHAPE_SETTING && row->shape != SHAPE_SETTINGS;
        cr_expect(!row->fallback != !row->absent, "%s", row->key);
        cr_expect(*row->help && (!bounded || (row->max > 0 && row->refusal)), "%s", row->key);
        if (row->shape == SHAPE_TEXT && row->form == FORM_PLAIN)
            cr_expect(row->max > 0 && row->refusal, "%s", row->key);
        if (row->shape == SHAPE_TEXT && (row->form == FORM_SIZE || row->form == FORM_TIME))
            cr_expect(row->accepts, "%s", row->key);
    }
}

/* ---- docs/jobs.md ---- */

static void put_choices(const struct job_field *row, struct buf *out)
{
    for (int i = 0; row->choices[i]; i++)
        (void)buf_printf(out, "%s`%s`", i ? ", " : "", row->choices[i]);
}

static void put_form(const struct job_field *row, struct buf *out)
{
    switch (row->form) {
    case FORM_PLAIN:
        (void)buf_printf(out, "text, %" PRId64 " bytes at most", row->max);
        break;
    case FORM_NAME:
        (void)buf_str(out, "name");
        break;
    case FORM_PATH:
        (void)buf_str(out, "path");
        break;
    case FORM_SIZE:
        (void)buf_str(out, "size, as `2GiB`");
        break;
    case FORM_TIME:
        (void)buf_str(out, "time, as `90m`");
        break;
    case FORM_TIMES:
        (void)buf_str(out, "times, as `1s..1m`");
        break;
    case FORM_INTERVAL:
        (void)buf_str(out, "`N steps`, or a time");
        break;
    case FORM_CHOICE:
        put_choices(row, out);
        break;
    case FORM_PRIORITY:
        put_choices(row, out);
        (void)buf_printf(out, ", %" PRId64 " to %" PRId64, row->min, row->max);
        break;
    case FORM_SIGNAL:
        (void)buf_str(out, "signal and time, as `USR1@2m`");
        break;
    }
}

static void put_values(const struct job_field *row, struct buf *out)
{
    switch (row->shape) {
    case SHAPE_TEXT:
        put_form(row, out);
        break;
    case SHAPE_COUNT:
        (void)buf_printf(out, "integer from %" PRId64, row->min);
        if (row->max < INT32_MAX)
            (void)buf_printf(out, " to %" PRId64, row->max);
        break;
    case SHAPE_NUMBER:
        (void)buf_printf(out, "number above 0, to %" PRId64, row->max);
        break;
    case SHAPE_RANGE:
        (void)buf_printf(out, "`N`, `MIN..MAX` or `{min, max}`, from %" PRId64 " to %" PRId64,
                         row->min, row->max);
        break;
    case SHAPE_WORDS:
        (void)buf_printf(out, "a list of at most %" PRId64 " texts, or one text", row->max);
        break;
    case SHAPE_PAIRS:
        (void)buf_printf(out, "at most %" PRId64 " names with their values", row->max);
        break;
    case SHAPE_SETTING:
    case SHAPE_SETTINGS:
        (void)buf_str(out, "[settings](settings.md)");
        break;
    }
}

static void put_row(const struct job_field *row, struct buf *out)
{
    (void)buf_printf(out, "| `%s` | ", row->key);
    put_values(row, out);
    (void)buf_printf(out, row->fallback ? " | `%s` | " : " | %s | ",
                     row->fallback ? row->fallback : row->absent);
    if (row->flag)
        (void)buf_printf(out, "`--%s`", row->flag);
    (void)buf_printf(out, " | %s |\n", row->help);
}

Test(job_fields, the_page_of_jobs_is_the_table)
{
    static const char title[] = "| key | values | default | flag | |\n|---|---|---|---|---|\n";
    static char page[256 << 10];
    struct buf table = {0};
    FILE *file = fopen(MUSTER_SOURCE_DIR "/docs/jobs.md", "re");
    cr_assert(file);
    page[fread(page, 1, sizeof(page) - 1, file)] = 0;
    (void)fclose(file);
    (void)buf_str(&table, title);
    for (int i = 0; i < JOB_FIELDS_COUNT; i++)
        put_row(&job_fields[i], &table);
    (void)buf_str(&table, "\n");
    const char *found = strstr(page, "| key | values |");
    cr_assert(found && strncmp(found, buf_cstr(&table), table.size) == 0,
              "docs/jobs.md has another table of keys than common/settings/job_field_list.h:\n%s",
              buf_cstr(&table));
    buf_fini(&table);
}
