#include "common/settings/setting.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/meant.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/settings/way.h"

const struct setting_row setting_rows[SETTINGS_COUNT] = {
#define X(id, name, kind, use, fallback, min, max, choices, help)                                  \
    [SETTING_##id] = {name, SETTING_##kind, SETTING_##use, fallback, min, max, choices, help},
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

bool settings_section(const char *path)
{
    size_t size = strlen(path);
    for (int i = 0; i < SETTINGS_COUNT; i++)
        if (str_starts(setting_rows[i].name, path) && setting_rows[i].name[size] == '.')
            return true;
    return false;
}

/* Names as people may write them: powersgd_rank for ddp.powersgd_rank, and under training, where a
 * job spec has them. */
static const char *nearest_to(const char *name)
{
    const char *names[SETTINGS_COUNT + 1] = {0};
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const char *dot = strrchr(setting_rows[i].name, '.');
        names[i] = setting_rows[i].name;
        if (strcmp(names[i], name) == 0 || (dot && strcmp(dot + 1, name) == 0))
            return names[i];
    }
    return str_nearest(name, names);
}

static const char *without_training(const char *name)
{
    static const char training[] = "training.";
    return str_starts(name, training) ? name + strlen(training) : name;
}

const char *settings_nearest(const char *name)
{
    return nearest_to(without_training(name));
}

/* "mesh.dp, mesh.tp, ..." of "mesh". */
static void hint_section(struct error *err, const char *section)
{
    char list[sizeof(err->hint)] = "";
    size_t size = strlen(section), used = 0;
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const char *name = setting_rows[i].name;
        if (str_starts(name, section) && name[size] == '.')
            (void)str_printf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", name);
        used = strlen(list);
    }
    error_hint(err, "its settings are %s", list);
}

void settings_meant(struct error *err, const char *name)
{
    const char *bare = without_training(name);
    if (settings_section(bare))
        hint_section(err, bare);
    else if (!meant_name(err, settings_nearest(name)))
        error_hint(err, "`muster env` lists them all");
}

const char *setting_variable(const char *name, char ret[SETTING_ENV_MAX])
{
    (void)str_printf(ret, SETTING_ENV_MAX, "MUSTER_%s", name);
    for (char *c = ret; *c; c++)
        *c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
    return ret;
}

const char *setting_env_name(enum setting setting, char ret[SETTING_ENV_MAX])
{
    return setting_variable(setting_rows[setting].name, ret);
}

static int check_choice(const struct setting_row *row, const char *text, struct error *err)
{
    enum { CHOICES_MAX = 16 };
    char names[CHOICES_MAX][SETTING_CHOICE_MAX];
    const char *list[CHOICES_MAX + 1] = {0};
    struct str rest = str_of(row->choices), choice;
    for (int i = 0; i < CHOICES_MAX && str_next(&rest, '|', &choice); i++) {
        if (str_equal(choice, str_of(text)))
            return 0;
        (void)str_printf(names[i], SETTING_CHOICE_MAX, "%.*s", (int)choice.size, choice.data);
        list[i] = names[i];
    }
    error_set(err, E_INVALID_ARGUMENT, "\"%.80s\" is none of %s", text, row->choices);
    (void)meant_hint(err, text, list);
    return E_INVALID_ARGUMENT;
}

const char *setting_choice(enum setting setting, int64_t number, char ret[SETTING_CHOICE_MAX])
{
    struct str rest = str_of(setting_rows[setting].choices), choice;
    ret[0] = '\0';
    for (int64_t i = 0; str_next(&rest, '|', &choice); i++) {
        if (i == number)
            (void)str_printf(ret, SETTING_CHOICE_MAX, "%.*s", (int)choice.size, choice.data);
    }
    return ret;
}

/* "none" is 0, "blocks" -1, "2GiB" its bytes. */
static int parse_choice_or_size(enum setting setting, const char *text, int64_t *ret,
                                struct error *err)
{
    char choice[SETTING_CHOICE_MAX];
    uint64_t bytes;
    bool truth;
    if (!parse_bool(text, &truth, NULL)) {
        *ret = -(int64_t)truth;
        return 0;
    }
    for (int64_t i = 0; *setting_choice(setting, i, choice); i++) {
        if (strcmp(choice, text) == 0) {
            *ret = -i;
            return 0;
        }
    }
    if (!isdigit((unsigned char)*text)) {
        (void)check_choice(&setting_rows[setting], text, err);
        return error_wrap(err, "neither a choice nor a size such as 6GiB");
    }
    int rc = parse_bytes(text, &bytes, err);
    if (!rc && (bytes < 1 || bytes > INT64_MAX))
        rc = error_set(err, E_INVALID_ARGUMENT, "%s is no number of bytes from 1 on", text);
    if (!rc)
        *ret = (int64_t)bytes;
    return rc;
}

/* "200 steps" is 200, "10m" is -600000. */
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
        return error_set(err, E_INVALID_ARGUMENT, "\"%.80s\" is neither \"200 steps\" nor a time",
                         text);
    memcpy(digits, text, (size_t)(space - text));
    digits[space - text] = 0;
    return parse_i64(digits, 1, INT64_MAX, ret, err);
}

static int parse_time(const struct setting_row *row, const char *text, int64_t *ret,
                      struct error *err)
{
    int64_t ms;
    char least[FORMAT_MAX];
    int rc = parse_duration(text, &ms, err);
    if (rc)
        return rc;
    if (ms < row->min || ms > row->max)
        return error_set(err, E_INVALID_ARGUMENT, "%s is less than %s", text,
                         format_duration_exact(row->min, least));
    *ret = ms;
    return 0;
}

static int parse_number(const struct setting_row *row, const char *text, double *ret,
                        struct error *err)
{
    double number;
    int rc = parse_f64(text, &number, err);
    if (rc)
        return rc;
    double min = (double)row->min, max = (double)row->max;
    bool above = !row->choices || !strchr(row->choices, '>') || number > min;
    bool below = !row->choices || !strchr(row->choices, '<') || number < max;
    if (number < min || number > max)
        return error_set(err, E_INVALID_ARGUMENT, "%s is outside %" PRId64 " to %" PRId64, text,
                         row->min, row->max);
    if (!above || !below)
        return error_set(err, E_INVALID_ARGUMENT, "%s is not %s %" PRId64, text,
                         above ? "below" : "above", above ? row->max : row->min);
    *ret = number;
    return 0;
}

static int check_ways(const char *text, struct error *err)
{
    struct way_step steps[WAY_STEPS_MAX - 1];
    int count;
    return way_steps_parse(text, steps, &count, err);
}

int setting_parse(enum setting setting, const char *text, struct setting_parsed *ret,
                  struct error *err)
{
    const struct setting_row *row = &setting_rows[setting];
    struct setting_parsed parsed = {0};
    bool truth = false;
    int rc = 0;
    switch (row->kind) {
    case SETTING_TEXT:
        rc = setting == SETTING_COMM_WAYS && *text ? check_ways(text, err) : 0;
        break;
    case SETTING_CHOICE:
        rc = check_choice(row, text, err);
        break;
    case SETTING_INTEGER:
        rc = parse_i64(text, row->min, row->max, &parsed.integer, err);
        break;
    case SETTING_BOOL:
        rc = parse_bool(text, &truth, err);
        parsed.integer = truth;
        break;
    case SETTING_CHOICE_OR_SIZE:
        rc = parse_choice_or_size(setting, text, &parsed.integer, err);
        break;
    case SETTING_INTERVAL:
        rc = parse_interval(text, &parsed.integer, err);
        break;
    case SETTING_DURATION:
        rc = parse_time(row, text, &parsed.integer, err);
        break;
    case SETTING_NUMBER:
        rc = parse_number(row, text, &parsed.number, err);
        break;
    }
    if (rc)
        return error_recode(err, E_INVALID_ARGUMENT);
    *ret = parsed;
    return 0;
}
