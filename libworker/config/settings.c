#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "libworker/config/settings.h"

const struct setting_row setting_rows[SETTINGS_COUNT] = {
#define X(id, name, kind, fallback, min, max, choices, help)                                       \
    [SETTING_##id] = {name, SETTING_##kind, fallback, min, max, choices, help},
    SETTINGS_LIST(X)
#undef X
};

int settings_find(const char *name)
{
    for (int i = 0; i < SETTINGS_COUNT; i++)
        if (strcmp(setting_rows[i].name, name) == 0)
            return i;
    return -1;
}

const char *setting_env_name(enum setting setting, char ret[SETTING_ENV_MAX])
{
    (void)str_printf(ret, SETTING_ENV_MAX, "MUSTER_%s", setting_rows[setting].name);
    for (char *c = ret; *c; c++)
        *c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
    return ret;
}

const char *setting_origin_name(enum wk_origin origin)
{
    switch (origin) {
    case WK_FROM_DEFAULT:
        return "default";
    case WK_FROM_FILE:
        return "config file";
    case WK_FROM_ENVIRONMENT:
        return "environment";
    case WK_FROM_CODE:
        return "code";
    }
    return "?";
}

static int check_choice(const struct setting_row *row, const char *text, struct error *err)
{
    struct str rest = str_of(row->choices), choice;
    while (str_next(&rest, '|', &choice))
        if (str_equal(choice, str_of(text)))
            return 0;
    return error_set(err, WK_EINVAL, "\"%s\" is none of %s", text, row->choices);
}

/* "200 steps" gives 200, "10m" gives -600000. */
static int parse_interval(const char *text, int64_t *ret, struct error *err)
{
    *ret = 0;
    if (!*text)
        return 0;
    const char *space = strchr(text, ' ');
    char digits[32];
    if (!space) {
        int64_t ms;
        int rc = parse_duration(text, &ms, err);
        if (rc) {
            (void)error_wrap(err, "neither \"200 steps\" nor a time");
            return rc;
        }
        *ret = -ms;
        return 0;
    }
    if ((strcmp(space, " steps") != 0 && strcmp(space, " step") != 0) ||
        (size_t)(space - text) >= sizeof(digits))
        return error_set(err, WK_EINVAL, "\"%s\" is neither \"200 steps\" nor a time", text);
    memcpy(digits, text, (size_t)(space - text));
    digits[space - text] = 0;
    return parse_i64(digits, 1, INT64_MAX, ret, err);
}

static int parse_value(const struct setting_row *row, const char *text, struct setting_value *value,
                       struct error *err)
{
    int rc = 0;
    bool truth = false;
    switch (row->kind) {
    case SETTING_TEXT:
        return 0;
    case SETTING_CHOICE:
        return check_choice(row, text, err);
    case SETTING_INTEGER:
        return parse_i64(text, row->min, row->max, &value->integer, err);
    case SETTING_BOOL:
        rc = parse_bool(text, &truth, err);
        value->integer = truth;
        return rc;
    case SETTING_INTERVAL:
        return parse_interval(text, &value->integer, err);
    case SETTING_DURATION:
        rc = parse_duration(text, &value->integer, err);
        if (!rc && (value->integer < row->min || value->integer > row->max))
            rc = error_set(err, WK_EINVAL, "%s is outside what makes sense", text);
        return rc;
    case SETTING_NUMBER:
        rc = parse_f64(text, &value->number, err);
        if (!rc && (value->number < (double)row->min || value->number > (double)row->max))
            rc = error_set(err, WK_EINVAL, "%s is outside %lld to %lld", text, (long long)row->min,
                           (long long)row->max);
        return rc;
    }
    return error_set(err, WK_EINTERNAL, "setting of an unknown kind");
}

int settings_set(struct settings *settings, enum setting setting, const char *text,
                 const struct setting_source *source, struct error *err)
{
    struct setting_value *value = &settings->values[setting];
    if (source->origin < value->origin)
        return 0;
    struct setting_value next = {.origin = source->origin};
    if (parse_value(&setting_rows[setting], text, &next, err)) {
        error_wrap(err, "%s%s%s", setting_rows[setting].name, *source->where ? " from " : "",
                   source->where);
        error_field(err, "%s", setting_rows[setting].name);
        return WK_EINVAL;
    }
    next.text = arena_strdup(&settings->arena, text);
    next.where = arena_strdup(&settings->arena, source->where);
    if (!next.text || !next.where)
        return error_set(err, WK_ENOMEM, "no memory for settings");
    *value = next;
    return 0;
}

static int unknown_name(const char *name, struct error *err)
{
    const char *names[SETTINGS_COUNT + 1] = {0};
    for (int i = 0; i < SETTINGS_COUNT; i++)
        names[i] = setting_rows[i].name;
    const char *nearest = str_nearest(name, names);
    error_set(err, WK_EINVAL, "no setting is called \"%s\"", name);
    if (nearest)
        error_hint(err, "did you mean %s?", nearest);
    return WK_EINVAL;
}

static int read_environment(struct settings *settings, const struct environment *environment,
                            struct error *err)
{
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        char name[SETTING_ENV_MAX];
        const char *text = environment->get(environment->arg, setting_env_name(i, name));
        /* An empty variable is how shells and schedulers say "not set". */
        if (!text || !*text)
            continue;
        struct setting_source source = {WK_FROM_ENVIRONMENT, name};
        int rc = settings_set(settings, i, text, &source, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_code(struct settings *settings, const struct settings_input *input,
                     struct error *err)
{
    struct setting_source source = {WK_FROM_CODE, ""};
    for (int i = 0; i < input->n_code; i++) {
        int setting = settings_find(input->code[i].name);
        if (setting < 0)
            return unknown_name(input->code[i].name, err);
        int rc = settings_set(settings, setting, input->code[i].value, &source, err);
        if (rc)
            return rc;
    }
    return 0;
}

enum { CONFIG_FILE_MAX_BYTES = 1 << 20 };

static int read_file(struct settings *settings, const char *path, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(err, WK_ENOTFOUND, "config file %s cannot be opened", path);
    char *text = malloc(CONFIG_FILE_MAX_BYTES + 1);
    size_t size = text ? fread(text, 1, CONFIG_FILE_MAX_BYTES + 1, file) : 0;
    int rc = 0;
    if (!text)
        rc = error_set(err, WK_ENOMEM, "no memory for config file %s", path);
    else if (ferror(file))
        rc = error_set(err, WK_EIO, "config file %s cannot be read", path);
    else if (size > CONFIG_FILE_MAX_BYTES)
        rc = error_set(err, WK_EINVAL, "config file %s is larger than 1 MiB", path);
    else
        rc = settings_read_yaml(settings, path, text, size, err);
    (void)fclose(file);
    free(text);
    return rc;
}

int settings_read(const struct settings_input *input, struct settings *ret, struct error *err)
{
    struct settings settings = {0};
    struct setting_source fallback = {WK_FROM_DEFAULT, ""};
    int rc = 0;
    for (int i = 0; i < SETTINGS_COUNT && !rc; i++)
        rc = settings_set(&settings, i, setting_rows[i].fallback, &fallback, err);
    const char *file = input->file;
    if (!file)
        file = input->environment->get(input->environment->arg, "MUSTER_CONFIG");
    if (!rc && file && *file)
        rc = read_file(&settings, file, err);
    if (!rc)
        rc = read_environment(&settings, input->environment, err);
    if (!rc)
        rc = read_code(&settings, input, err);
    if (rc) {
        settings_fini(&settings);
        return rc;
    }
    *ret = settings;
    return 0;
}

void settings_fini(struct settings *settings)
{
    arena_fini(&settings->arena);
    *settings = (struct settings){0};
}

int settings_print(const struct settings *settings, FILE *out)
{
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting_value *value = &settings->values[i];
        if (fprintf(out, "%-28s %-20s # %s%s%s\n", setting_rows[i].name,
                    *value->text ? value->text : "\"\"", setting_origin_name(value->origin),
                    *value->where ? ": " : "", value->where) < 0)
            return WK_EIO;
    }
    return 0;
}
