/* muster env: every setting of libworker with its value and source */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/base/tree_write.h"
#include "libworker/config/remark.h"

extern char **environ;

enum { SETS_MAX = 256, SET_MAX = 512 };

static const char *const outputs[] = {"table", "json", "yaml", NULL};
static const struct args_option options[] = {
    {.name = "config",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "config file or job file (else MUSTER_CONFIG)"},
    {.name = "set",
     .kind = ARGS_REPEATED,
     .value_name = "NAME=VALUE",
     .help = "as if the program had set it; any number of times"},
    {.name = "output",
     .letter = 'o',
     .kind = ARGS_OPTION,
     .choices = outputs,
     .fallback = "table",
     .value_name = "FORMAT",
     .help = "how it is printed"},
    {.name = "changed", .kind = ARGS_FLAG, .help = "leave out what is at its default"},
    {.name = "markdown", .kind = ARGS_FLAG, .help = "the table of all settings as documentation"},
    {0},
};
static const char *const examples[] = {
    "MUSTER_STRATEGY=zero2 muster env --config job.yaml --changed",
    NULL,
};
static const struct args_command command = {
    .program = "muster env",
    .summary = "show every training setting, its value and its source",
    .description = "The values are those that a program would have if it were started here. The "
                   "first source that has a value wins: the program, the environment, the config "
                   "file, the default. An unknown key is an error, with its line and the nearest "
                   "name.",
    .options = options,
    .examples = examples,
};

static const char *variable(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

static const char *kind_text(const struct setting_row *row, char ret[SET_MAX])
{
    switch (row->kind) {
    case SETTING_TEXT:
        return "text";
    case SETTING_CHOICE:
    case SETTING_CHOICE_OR_SIZE: {
        struct str rest = str_of(row->choices), choice;
        size_t used = 0;
        while (str_next(&rest, '|', &choice) && used < SET_MAX)
            used += (size_t)snprintf(ret + used, SET_MAX - used, "%s`%.*s`", used ? ", " : "",
                                     (int)choice.size, choice.data);
        if (row->kind == SETTING_CHOICE_OR_SIZE && used < SET_MAX)
            (void)snprintf(ret + used, SET_MAX - used, ", or a size, for example `6GiB`");
        return ret;
    }
    case SETTING_INTEGER:
    case SETTING_NUMBER: {
        const char *bounds = row->choices ? row->choices : "";
        (void)snprintf(ret, SET_MAX, "%s %s %" PRId64,
                       row->kind == SETTING_INTEGER ? "integer" : "number",
                       strchr(bounds, '>') ? "above" : "from", row->min);
        if (row->max != INT64_MAX)
            (void)snprintf(ret + strlen(ret), SET_MAX - strlen(ret), " %s %" PRId64,
                           strchr(bounds, '<') ? "and below" : "to", row->max);
        return ret;
    }
    case SETTING_BOOL:
        return "`true`, `false`";
    case SETTING_DURATION:
        return "time, for example `30s` or `10m`";
    case SETTING_INTERVAL:
        return "`N steps`, or a time";
    }
    return "?";
}

static const char *use_text(enum setting_use use)
{
    switch (use) {
    case SETTING_OF_JOB:
        return "`training`";
    case SETTING_OF_CHECKPOINT:
        return "`checkpoint`";
    case SETTING_OF_MACHINE:
        return "";
    }
    return "?";
}

static void print_markdown(void)
{
    printf(
        "# Settings\n"
        "\n"
        "Written by `muster env --markdown` from the one table in `common/settings/setting.h`; a "
        "test compares the two.\n"
        "\n"
        "The first source that has a value wins: the program, the environment, a YAML file "
        "(`MUSTER_CONFIG`), the default.\n"
        "In a file the dots of a name are nested keys. A job file may be used as one: its "
        "`training` and `checkpoint` are read.\n"
        "`muster env` shows each value on this machine, and its source.\n"
        "\n"
        "The column *job* names the key of a job file that has the setting. The job's workers find "
        "it in their environment.\n"
        "`muster submit --set NAME=VALUE` sets any key of `training`. A setting without a key "
        "there differs between machines,\n"
        "or is used only without an agent.\n"
        "\n"
        "| setting | environment | job | values | default | |\n"
        "|---|---|---|---|---|---|\n");
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting_row *row = &setting_rows[i];
        char name[SETTING_ENV_MAX], kind[SET_MAX];
        const char *tick = *row->fallback ? "`" : "";
        printf("| `%s` | `%s` | %s | %s | %s%s%s | %s |\n", row->name, setting_env_name(i, name),
               use_text(row->use), kind_text(row, kind), tick, row->fallback, tick, row->help);
    }
}

static bool is_shown(const struct args *args, const struct setting_value *value)
{
    return value->origin != WK_FROM_DEFAULT || !args_flag(args, "changed");
}

static void print_table(const struct args *args, const struct settings *settings)
{
    static const char *const titles[] = {"SETTING", "VALUE", "FROM", NULL};
    struct table table;
    table_init(&table, titles);
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting_value *value = &settings->values[i];
        if (!is_shown(args, value))
            continue;
        table_cell(&table, "%s", setting_rows[i].name);
        table_cell(&table, "%s", *value->text ? value->text : "\"\"");
        table_cell(&table, "%s%s%s", setting_origin_name(value->origin), *value->where ? " " : "",
                   value->where);
    }
    table_print(&table, stdout, "every setting is at its default");
    table_fini(&table);
}

static int print_tree(const struct args *args, const struct settings *settings, struct error *err)
{
    struct arena arena = {0};
    struct buf out = {0};
    struct tree *root = tree_map(&arena);
    int rc = root ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory");
    for (int i = 0; i < SETTINGS_COUNT && !rc; i++) {
        const struct setting_value *value = &settings->values[i];
        if (!is_shown(args, value))
            continue;
        struct tree *row = tree_map(&arena);
        rc = tree_map_set(&arena, root, setting_rows[i].name, row);
        if (!rc)
            rc = tree_map_set(&arena, row, "value", tree_string(&arena, value->text));
        if (!rc)
            rc = tree_map_set(&arena, row, "from",
                              tree_string(&arena, setting_origin_name(value->origin)));
        if (!rc && *value->where)
            rc = tree_map_set(&arena, row, "where", tree_string(&arena, value->where));
    }
    if (!rc && strcmp(args_text(args, "output"), "yaml") == 0)
        rc = tree_write_yaml(root, &out, err);
    else if (!rc)
        rc = tree_write_json(root, TREE_PRETTY, &out, err);
    if (!rc)
        printf("%s%s", buf_cstr(&out), buf_cstr(&out)[out.size - 1] == '\n' ? "" : "\n");
    buf_fini(&out);
    arena_fini(&arena);
    return rc;
}

static const char *const *variables(void *arg)
{
    (void)arg;
    return (const char *const *)environ;
}

static void warn(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "muster: %s\n", text);
}

/* NAME=VALUE of --set into the list; texts go to the arena. */
static int take_sets(const struct args *args, struct arena *arena, struct settings_input *input,
                     struct error *err)
{
    struct wk_setting *list = arena_array(arena, SETS_MAX, sizeof(*list));
    const char *text;
    for (; list && (text = args_repeated(args, "set", (size_t)input->n_code)); input->n_code++) {
        const char *equals = strchr(text, '=');
        if (!equals || input->n_code == SETS_MAX)
            return error_set(err, E_INVALID_ARGUMENT, "--set %s is not NAME=VALUE", text);
        list[input->n_code].name = arena_strndup(arena, text, (size_t)(equals - text));
        list[input->n_code].value = equals + 1;
    }
    input->code = list;
    return list ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory");
}

static int run_env(const struct args *args)
{
    static const struct environment process = {.get = variable, .all = variables};
    struct settings_input input = {.environment = &process, .file = args_text(args, "config")};
    struct settings settings = {0};
    struct arena arena = {0};
    struct error err = {0};
    if (args_flag(args, "markdown")) {
        print_markdown();
        return EXIT_DONE;
    }
    int rc = take_sets(args, &arena, &input, &err);
    if (!rc)
        rc = settings_read(&input, &settings, &err);
    if (!rc && strcmp(args_text(args, "output"), "table") == 0)
        print_table(args, &settings);
    else if (!rc)
        rc = print_tree(args, &settings, &err);
    if (!rc)
        settings_remark(&settings, &process, warn, NULL);
    settings_fini(&settings);
    arena_fini(&arena);
    if (rc)
        return client_fail(&err);
    return EXIT_DONE;
}

const struct verb verb_env = {.name = "env", .command = &command, .run = run_env};
