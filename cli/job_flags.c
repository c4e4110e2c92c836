#include "cli/job_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree_build.h"
#include "common/env/paths.h"
#include "common/settings/setting.h"

enum { COUNT_MAX = 1 << 20, PATH_BYTES = 1024, KEY_BYTES = 256, SECTION_BYTES = 128 };

/* The map at `key`, made if it is not there. */
static struct tree *sub_map(const struct job_flags *in, struct tree *map, const char *key)
{
    struct tree *sub = tree_get(map, key);
    if (!sub || sub->kind != TREE_MAP) {
        sub = tree_map(in->arena);
        tree_map_set(in->arena, map, key, sub);
    }
    return sub;
}

/* A file's short forms, a number and off, keep their meaning together with a flag. */
static struct tree *restart_map(const struct job_flags *in)
{
    struct tree *said = tree_get(in->spec, "restart");
    struct tree *map = sub_map(in, in->spec, "restart");
    bool off = said && ((said->kind == TREE_BOOL && !said->boolean) ||
                        (said->kind == TREE_STRING && strcmp(said->string, "off") == 0));
    if (said && said->kind != TREE_MAP && said->kind != TREE_NULL)
        tree_map_set(in->arena, map, "max", off ? tree_integer(in->arena, 0) : said);
    return map;
}

/* A file's short form, the folder, stays together with a flag. */
static struct tree *checkpoint_map(const struct job_flags *in)
{
    struct tree *said = tree_get(in->spec, "checkpoint");
    struct tree *map = sub_map(in, in->spec, "checkpoint");
    if (said && said->kind == TREE_STRING)
        tree_map_set(in->arena, map, "dir", said);
    return map;
}

/* The map with the row's value: the spec or one of its sections. NULL with an error. */
static struct tree *map_of(const struct job_flags *in, const struct job_field *row)
{
    char section[SECTION_BYTES];
    size_t size = job_field_section(row->key);
    if (size == 0)
        return in->spec;
    (void)str_printf(section, sizeof(section), "%.*s", (int)size, row->key);
    const struct tree *said = tree_get(in->spec, section);
    if (strcmp(section, "restart") == 0)
        return restart_map(in);
    if (strcmp(section, "checkpoint") == 0)
        return checkpoint_map(in);
    if (strcmp(section, "nodes") == 0 && said && said->kind != TREE_MAP) {
        error_set(in->err, E_INVALID_ARGUMENT,
                  "--%s needs --nodes, or nodes: {min, max} in the file", row->flag);
        return NULL;
    }
    return sub_map(in, in->spec, section);
}

static int put_value(const struct job_flags *in, const struct job_field *row, struct tree *value)
{
    struct tree *map = map_of(in, row);
    size_t size = job_field_section(row->key);
    return map ? tree_map_set(in->arena, map, row->key + (size ? size + 1 : 0), value)
               : E_INVALID_ARGUMENT;
}

/* A path counts from here; where the workers run it would count from their own folder. */
static int set_text(const struct job_flags *in, const struct job_field *row)
{
    const char *text = args_text(in->args, row->flag);
    char path[PATH_BYTES];
    if (row->form == FORM_PATH) {
        int rc = paths_absolute(path, sizeof(path), text, in->err);
        if (rc)
            return rc;
        text = path;
    }
    return put_value(in, row, tree_string(in->arena, text));
}

static int set_count(const struct job_flags *in, const struct job_field *row)
{
    int64_t value;
    if (parse_i64(args_text(in->args, row->flag), 0, COUNT_MAX, &value, in->err))
        return error_wrap(in->err, "--%s", row->flag);
    return put_value(in, row, tree_integer(in->arena, value));
}

static int set_number(const struct job_flags *in, const struct job_field *row)
{
    double value;
    if (parse_f64(args_text(in->args, row->flag), &value, in->err))
        return error_wrap(in->err, "--%s", row->flag);
    return put_value(in, row, tree_number(in->arena, value));
}

int job_flags_nodes(const struct args *args, uint32_t *ret_min, uint32_t *ret_max,
                    struct error *err)
{
    const char *text = args_text(args, job_fields[JOB_FIELD_NODES].flag);
    int64_t min = 0, max = 0;
    if (text && parse_range(text, 1, INT32_MAX, &min, &max, err))
        return error_wrap(err, "--nodes is a number or a range, for example 2 or 1..4");
    *ret_min = (uint32_t)min;
    *ret_max = (uint32_t)max;
    return 0;
}

static int set_nodes(const struct job_flags *in, const struct job_field *row)
{
    uint32_t min, max;
    int rc = job_flags_nodes(in->args, &min, &max, in->err);
    if (rc)
        return rc;
    struct tree *range = tree_map(in->arena);
    tree_map_set(in->arena, range, "min", tree_integer(in->arena, min));
    tree_map_set(in->arena, range, "max", tree_integer(in->arena, max));
    return put_value(in, row, range);
}

static int set_env(const struct job_flags *in)
{
    const char *pair;
    for (size_t i = 0; (pair = args_repeated(in->args, "env", i)); i++) {
        char key[KEY_BYTES];
        size_t length = strcspn(pair, "=");
        if (length == 0 || length >= sizeof(key))
            return error_set(in->err, E_INVALID_ARGUMENT, "--env %s: expected KEY=VALUE", pair);
        snprintf(key, sizeof(key), "%.*s", (int)length, pair);
        const char *value = pair[length] ? pair + length + 1 : getenv(key);
        if (!value)
            return error_set(in->err, E_INVALID_ARGUMENT, "--env %s: not set here", key);
        tree_map_set(in->arena, sub_map(in, in->spec, "env"), key, tree_string(in->arena, value));
    }
    return 0;
}

static int set_secrets(const struct job_flags *in)
{
    const char *pair;
    for (size_t i = 0; (pair = args_repeated(in->args, "secret", i)); i++) {
        char key[KEY_BYTES];
        size_t length = strcspn(pair, "=");
        if (length == 0 || length >= sizeof(key) || !pair[length] || !pair[length + 1])
            return error_set(in->err, E_INVALID_ARGUMENT,
                             "--secret needs VARIABLE=NAME, where NAME is a secret");
        snprintf(key, sizeof(key), "%.*s", (int)length, pair);
        tree_map_set(in->arena, sub_map(in, in->spec, "secrets"), key,
                     tree_string(in->arena, pair + length + 1));
    }
    return 0;
}

/* Pass on this shell's virtual environment, unless the job sets one, or a PATH. On each node the
 * worker's PATH then begins with it (agent/core/environment.c). */
static void set_python(const struct job_flags *in)
{
    static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    const struct tree *env = tree_get(in->spec, "env");
    if (tree_get(env, "PATH") || tree_get(env, names[0]) || tree_get(env, names[1]))
        return;
    for (int i = 0; i < 2; i++) {
        const char *folder = getenv(names[i]);
        if (!folder || folder[0] != '/')
            continue;
        tree_map_set(in->arena, sub_map(in, in->spec, "env"), names[i],
                     tree_string(in->arena, folder));
        return;
    }
}

/* Check here, where the option is known. */
static int check_setting(const char *key, const char *value, struct error *err)
{
    struct setting_parsed ignored;
    int setting = settings_find(key);
    if (setting >= 0) {
        if (!setting_parse((enum setting)setting, value, &ignored, err))
            return 0;
        return error_wrap(err, "--set %s", key);
    }
    error_set(err, E_INVALID_ARGUMENT, "--set %s: no such setting", key);
    settings_meant(err, key);
    return E_INVALID_ARGUMENT;
}

/* ddp.hook=fp16 replaces the file's value, nested or dotted. */
static int put_setting(const struct job_flags *in, const char *key, const char *value)
{
    struct tree *map = sub_map(in, in->spec, "training");
    struct tree *plain = tree_get(map, "settings");
    const char *dot = strchr(key, '.');
    struct tree *text = tree_string(in->arena, value);
    if (plain)
        (void)tree_map_remove(plain, key);
    if (dot && !tree_get(map, key)) {
        char section[SECTION_BYTES];
        snprintf(section, sizeof(section), "%.*s", (int)(dot - key), key);
        return tree_map_set(in->arena, sub_map(in, map, section), dot + 1, text);
    }
    return tree_map_set(in->arena, map, key, text);
}

static int set_resume(const struct job_flags *in)
{
    const char *from = args_text(in->args, job_fields[JOB_FIELD_RESUME_FROM].flag);
    char path[PATH_BYTES];
    int rc = strcmp(from, "latest") == 0 ? str_copy(path, sizeof(path), from)
                                         : paths_absolute(path, sizeof(path), from, in->err);
    if (rc)
        return rc;
    return put_setting(in, "resume_from", path);
}

static int set_training(const struct job_flags *in)
{
    const char *pair;
    for (size_t i = 0; (pair = args_repeated(in->args, "set", i)); i++) {
        char key[SECTION_BYTES];
        size_t length = strcspn(pair, "=");
        if (length == 0 || length >= sizeof(key) || !pair[length])
            return error_set(in->err, E_INVALID_ARGUMENT, "--set %s: expected SETTING=VALUE", pair);
        snprintf(key, sizeof(key), "%.*s", (int)length, pair);
        if (check_setting(key, pair + length + 1, in->err))
            return E_INVALID_ARGUMENT;
        int rc = put_setting(in, key, pair + length + 1);
        if (rc)
            return error_set(in->err, E_RESOURCE_EXHAUSTED, "no memory for --set %s", key);
    }
    return 0;
}

static int set_pairs(const struct job_flags *in, enum job_field_id id)
{
    return id == JOB_FIELD_ENV ? set_env(in) : set_secrets(in);
}

static int set_flag(const struct job_flags *in, enum job_field_id id)
{
    const struct job_field *row = &job_fields[id];
    switch (row->shape) {
    case SHAPE_TEXT:
        return set_text(in, row);
    case SHAPE_COUNT:
        return set_count(in, row);
    case SHAPE_NUMBER:
        return set_number(in, row);
    case SHAPE_RANGE:
        return set_nodes(in, row);
    case SHAPE_PAIRS:
        return set_pairs(in, id);
    case SHAPE_SETTING:
        return set_resume(in);
    case SHAPE_SETTINGS:
        return set_training(in);
    case SHAPE_WORDS: /* words, not a flag: job_input.c */
        break;
    }
    return 0;
}

int job_flags_apply(const struct job_flags *in)
{
    int rc = 0;
    for (int i = 0; i < JOB_FIELDS_COUNT && !rc; i++)
        if (job_fields[i].flag && args_given(in->args, job_fields[i].flag))
            rc = set_flag(in, (enum job_field_id)i);
    if (!rc)
        set_python(in);
    return rc;
}
