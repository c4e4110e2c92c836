#include "cli/job_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/arena.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/env/paths.h"
#include "common/rpc/message.h"
#include "common/rpc/spec.h"
#include "common/settings/setting.h"

enum { INPUT_ARENA_BYTES = 8 << 20 };

const char *const job_priorities[] = {"low", "normal", "high", NULL};
const char *const job_elasticities[] = {"in_place", "restart", "off", NULL};
const char *const job_after_failures[] = {"stop", "retry", NULL};

struct input {
    const struct args *args;
    struct arena arena;
    struct tree *spec;
    struct error *err;
    bool shape; /* no command is needed */
};

static int read_all(FILE *file, const char *name, struct buf *ret, struct error *err)
{
    char block[16384];
    size_t got;
    while ((got = fread(block, 1, sizeof(block), file)) > 0) {
        if (buf_append(ret, block, got) != 0 || ret->size > SPEC_MAX_BYTES)
            return error_set(err, E_INVALID_ARGUMENT, "%s: a spec has at most %d KiB", name,
                             SPEC_MAX_BYTES >> 10);
    }
    return ferror(file) ? error_errno(err, errno, "%s", name) : 0;
}

static const char *shown_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static int parse_file(struct input *in, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    if (!file) {
        error_errno(in->err, errno, "cannot read the job spec %s", path);
        return E_INVALID_ARGUMENT;
    }
    struct buf text = {0};
    const char *name = shown_name(path);
    int rc = read_all(file, name, &text, in->err);
    if (!standard)
        fclose(file);
    if (rc == 0) {
        struct tree_input input = {.name = name, .text = buf_cstr(&text), .size = text.size};
        rc = tree_looks_like_json(input.text, input.size)
                 ? tree_parse_json(&input, &in->arena, &in->spec, in->err)
                 : tree_parse_yaml(&input, &in->arena, &in->spec, in->err);
    }
    buf_fini(&text);
    if (rc == 0 && in->spec->kind == TREE_NULL)
        return error_set(in->err, E_INVALID_ARGUMENT,
                         "%s is empty: a job spec has at least a command", name);
    if (rc == 0 && in->spec->kind != TREE_MAP)
        rc = error_set(in->err, E_INVALID_ARGUMENT, "%s: a job spec is a map of keys, this is %s",
                       name, tree_kind_name(in->spec->kind));
    return rc;
}

bool job_input_is_file(const char *word)
{
    return strcmp(word, "-") == 0 || str_ends(word, ".yaml") || str_ends(word, ".yml") ||
           str_ends(word, ".json");
}

/* The map at `key`, made if it is not there. */
static struct tree *sub_map(struct input *in, struct tree *map, const char *key)
{
    struct tree *sub = tree_get(map, key);
    if (!sub || sub->kind != TREE_MAP) {
        sub = tree_map(&in->arena);
        tree_map_set(&in->arena, map, key, sub);
    }
    return sub;
}

static void set_text(struct input *in, struct tree *map, const char *key, const char *option)
{
    const char *value = args_text(in->args, option);
    if (value)
        tree_map_set(&in->arena, map, key, tree_string(&in->arena, value));
}

static int set_integer(struct input *in, struct tree *map, const char *key, const char *option)
{
    const char *text = args_text(in->args, option);
    int64_t value;
    if (!text)
        return 0;
    if (parse_i64(text, 0, 1 << 20, &value, in->err) != 0)
        return error_wrap(in->err, "--%s", option);
    return tree_map_set(&in->arena, map, key, tree_integer(&in->arena, value));
}

int job_input_nodes(const struct args *args, uint32_t *ret_min, uint32_t *ret_max,
                    struct error *err)
{
    const char *text = args_text(args, "nodes");
    int64_t min = 0, max = 0;
    if (text && parse_range(text, 1, INT32_MAX, &min, &max, err) != 0)
        return error_wrap(err, "--nodes is a number or a range, for example 2 or 1..4");
    *ret_min = (uint32_t)min;
    *ret_max = (uint32_t)max;
    return 0;
}

static int set_nodes(struct input *in)
{
    uint32_t min, max;
    int rc = job_input_nodes(in->args, &min, &max, in->err);
    if (rc != 0 || max == 0)
        return rc;
    struct tree *range = tree_map(&in->arena);
    tree_map_set(&in->arena, range, "min", tree_integer(&in->arena, min));
    tree_map_set(&in->arena, range, "max", tree_integer(&in->arena, max));
    return tree_map_set(&in->arena, in->spec, "nodes", range);
}

/* Beside the range, which --nodes or the file gave; else of one node. */
static int set_spares(struct input *in)
{
    const struct tree *nodes = tree_get(in->spec, "nodes");
    if (!args_given(in->args, "spares"))
        return 0;
    if (nodes && nodes->kind != TREE_MAP)
        return error_set(in->err, E_INVALID_ARGUMENT,
                         "--spares needs --nodes, or nodes: {min, max} in the file");
    return set_integer(in, sub_map(in, in->spec, "nodes"), "spares", "spares");
}

static int set_env(struct input *in)
{
    const char *pair;
    for (size_t i = 0; (pair = args_repeated(in->args, "env", i)); i++) {
        char key[256];
        size_t length = strcspn(pair, "=");
        if (length == 0 || length >= sizeof(key))
            return error_set(in->err, E_INVALID_ARGUMENT, "--env %s: expected KEY=VALUE", pair);
        snprintf(key, sizeof(key), "%.*s", (int)length, pair);
        const char *value = pair[length] ? pair + length + 1 : getenv(key);
        if (!value)
            return error_set(in->err, E_INVALID_ARGUMENT, "--env %s: not set here", key);
        tree_map_set(&in->arena, sub_map(in, in->spec, "env"), key, tree_string(&in->arena, value));
    }
    return 0;
}

static int set_secrets(struct input *in)
{
    const char *pair;
    for (size_t i = 0; (pair = args_repeated(in->args, "secret", i)); i++) {
        char key[256];
        size_t length = strcspn(pair, "=");
        if (length == 0 || length >= sizeof(key) || !pair[length] || !pair[length + 1])
            return error_set(in->err, E_INVALID_ARGUMENT,
                             "--secret needs VARIABLE=NAME, where NAME is a secret");
        snprintf(key, sizeof(key), "%.*s", (int)length, pair);
        tree_map_set(&in->arena, sub_map(in, in->spec, "secrets"), key,
                     tree_string(&in->arena, pair + length + 1));
    }
    return 0;
}

/* Pass on this shell's virtual environment, unless the job sets one, or a PATH. On each node the
 * worker's PATH then begins with it (agent/core/environment.c). */
static void set_python(struct input *in)
{
    static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    const struct tree *env = tree_get(in->spec, "env");
    if (tree_get(env, "PATH") || tree_get(env, names[0]) || tree_get(env, names[1]))
        return;
    for (int i = 0; i < 2; i++) {
        const char *folder = getenv(names[i]);
        if (!folder || folder[0] != '/')
            continue;
        tree_map_set(&in->arena, sub_map(in, in->spec, "env"), names[i],
                     tree_string(&in->arena, folder));
        return;
    }
}

/* Check here, where the option is known. */
static int check_setting(const char *key, const char *value, struct error *err)
{
    struct setting_parsed ignored;
    int setting = settings_find(key);
    if (setting >= 0) {
        if (setting_parse((enum setting)setting, value, &ignored, err) == 0)
            return 0;
        return error_wrap(err, "--set %s", key);
    }
    error_set(err, E_INVALID_ARGUMENT, "--set %s: no such setting", key);
    settings_meant(err, key);
    return E_INVALID_ARGUMENT;
}

/* ddp.hook=fp16 replaces the file's value, nested or dotted. */
static int put_setting(struct input *in, const char *key, const char *value)
{
    struct tree *map = sub_map(in, in->spec, "training");
    struct tree *plain = tree_get(map, "settings");
    const char *dot = strchr(key, '.');
    struct tree *text = tree_string(&in->arena, value);
    if (plain)
        (void)tree_map_remove(plain, key);
    if (dot && !tree_get(map, key)) {
        char section[128];
        snprintf(section, sizeof(section), "%.*s", (int)(dot - key), key);
        return tree_map_set(&in->arena, sub_map(in, map, section), dot + 1, text);
    }
    return tree_map_set(&in->arena, map, key, text);
}

/* A path counts from here; where the workers run it would count from their own folder. */
static int set_resume(struct input *in)
{
    const char *from = args_text(in->args, "resume-from");
    char path[1024];
    if (!from)
        return 0;
    int rc = strcmp(from, "latest") == 0 ? str_copy(path, sizeof(path), from)
                                         : paths_absolute(path, sizeof(path), from, in->err);
    return rc != 0 ? rc : put_setting(in, "resume_from", path);
}

/* A file's short forms, a number and off, keep their meaning together with an option. */
static struct tree *restart_map(struct input *in)
{
    struct tree *said = tree_get(in->spec, "restart");
    struct tree *map = sub_map(in, in->spec, "restart");
    bool off = said && ((said->kind == TREE_BOOL && !said->boolean) ||
                        (said->kind == TREE_STRING && strcmp(said->string, "off") == 0));
    if (said && said->kind != TREE_MAP && said->kind != TREE_NULL)
        tree_map_set(&in->arena, map, "max", off ? tree_integer(&in->arena, 0) : said);
    return map;
}

static int set_training(struct input *in)
{
    const char *pair;
    for (size_t i = 0; (pair = args_repeated(in->args, "set", i)); i++) {
        char key[128];
        size_t length = strcspn(pair, "=");
        if (length == 0 || length >= sizeof(key) || !pair[length])
            return error_set(in->err, E_INVALID_ARGUMENT, "--set %s: expected SETTING=VALUE", pair);
        snprintf(key, sizeof(key), "%.*s", (int)length, pair);
        if (check_setting(key, pair + length + 1, in->err) != 0)
            return E_INVALID_ARGUMENT;
        int rc = put_setting(in, key, pair + length + 1);
        if (rc != 0)
            return error_set(in->err, E_RESOURCE_EXHAUSTED, "no memory for --set %s", key);
    }
    return 0;
}

static int set_command(struct input *in)
{
    if (in->args->word_count == 0)
        return 0;
    struct tree *command = tree_list(&in->arena);
    for (size_t i = 0; i < in->args->word_count; i++)
        tree_list_add(command, tree_string(&in->arena, in->args->words[i]));
    return tree_map_set(&in->arena, in->spec, "command", command);
}

static int apply_options(struct input *in)
{
    struct tree *spec = in->spec;
    set_text(in, spec, "name", "name");
    set_text(in, spec, "tenant", "tenant");
    set_text(in, spec, "priority", "priority");
    set_text(in, spec, "max_runtime", "max-runtime");
    set_text(in, spec, "elastic", "elastic");
    int rc = set_nodes(in);
    if (rc == 0)
        rc = set_spares(in);
    if (rc == 0)
        rc = set_integer(in, spec, "workers_per_node", "workers-per-node");
    if (rc == 0 && args_given(in->args, "restarts"))
        rc = set_integer(in, restart_map(in), "max", "restarts");
    if (args_given(in->args, "on-failure"))
        set_text(in, restart_map(in), "on_failure", "on-failure");
    if (args_given(in->args, "on-no-progress"))
        set_text(in, restart_map(in), "on_no_progress", "on-no-progress");
    if (rc == 0 && (args_given(in->args, "slots") || args_given(in->args, "cpus") ||
                    args_given(in->args, "memory"))) {
        struct tree *resources = sub_map(in, spec, "resources");
        set_text(in, resources, "memory", "memory");
        rc = set_integer(in, resources, "slots", "slots");
        double cpus;
        if (rc == 0 && args_given(in->args, "cpus")) {
            rc = parse_f64(args_text(in->args, "cpus"), &cpus, in->err);
            if (rc == 0)
                tree_map_set(&in->arena, resources, "cpus", tree_number(&in->arena, cpus));
            else
                error_wrap(in->err, "--cpus");
        }
    }
    if (args_given(in->args, "checkpoint")) {
        char path[1024];
        if (rc == 0)
            rc = paths_absolute(path, sizeof(path), args_text(in->args, "checkpoint"), in->err);
        if (rc == 0)
            tree_map_set(&in->arena, sub_map(in, spec, "checkpoint"), "dir",
                         tree_string(&in->arena, path));
    }
    if (args_given(in->args, "checkpoint-every"))
        set_text(in, sub_map(in, spec, "checkpoint"), "every", "checkpoint-every");
    if (rc == 0)
        rc = set_env(in);
    if (rc == 0)
        rc = set_secrets(in);
    if (rc == 0)
        set_python(in);
    if (rc == 0)
        rc = set_resume(in);
    if (rc == 0)
        rc = set_training(in);
    return rc;
}

/* A slip for a spec inside it: no node can run a folder. */
static int refuse_folder(const struct args *args, struct error *err)
{
    struct stat info;
    const char *word = args->word_count == 1 ? args->words[0] : "";
    if ((!strchr(word, '/') && strcmp(word, ".") != 0 && strcmp(word, "..") != 0) ||
        stat(word, &info) != 0 || !S_ISDIR(info.st_mode))
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "%s is a folder", word);
    error_hint(err, "name a spec file (.yaml, .yml or .json), or a command after --");
    return E_INVALID_ARGUMENT;
}

static int build(struct input *in, Muster__JobSpec **ret)
{
    const char *file = args_text(in->args, "file");
    bool word_is_file = !file && in->args->word_count > 0 && job_input_is_file(in->args->words[0]);
    if (word_is_file && in->args->word_count > 1) {
        error_set(in->err, E_INVALID_ARGUMENT, "both a spec file (%s) and a command were given",
                  in->args->words[0]);
        error_hint(in->err, "to replace the spec's command: -f %s -- COMMAND", in->args->words[0]);
        return E_INVALID_ARGUMENT;
    }
    int rc = refuse_folder(in->args, in->err);
    if (rc != 0)
        return rc;
    if (file || word_is_file)
        rc = parse_file(in, file ? file : in->args->words[0]);
    else
        in->spec = tree_map(&in->arena);
    if (rc == 0 && !word_is_file)
        rc = set_command(in);
    if (rc == 0)
        rc = apply_options(in);
    if (rc != 0)
        return rc;
    char here[1024];
    if (!tree_get(in->spec, "workdir") && getcwd(here, sizeof(here)))
        tree_map_set(&in->arena, in->spec, "workdir", tree_string(&in->arena, here));
    if (in->shape && !tree_get(in->spec, "command")) {
        struct tree *none = tree_list(&in->arena);
        tree_list_add(none, tree_string(&in->arena, "true"));
        tree_map_set(&in->arena, in->spec, "command", none);
        if (!tree_get(in->spec, "name"))
            tree_map_set(&in->arena, in->spec, "name", tree_string(&in->arena, "it"));
    }
    if (!file && !word_is_file && !tree_get(in->spec, "command")) {
        error_set(in->err, E_INVALID_ARGUMENT, "the job has no command");
        error_field(in->err, "command");
        error_hint(in->err, "put it after --, for example: muster run -N 2 -- python3 train.py");
        return E_INVALID_ARGUMENT;
    }
    rc = spec_from_tree(&in->arena, in->spec, ret, in->err);
    bool from_file = file || word_is_file;
    if (rc != 0 && str_starts(in->err->text, "line "))
        (void)error_wrap(in->err, "%s",
                         from_file ? shown_name(file ? file : in->args->words[0]) : "options");
    return rc;
}

static int read_input(struct input *in, struct job_input *ret)
{
    arena_init(&in->arena, INPUT_ARENA_BYTES);
    int rc = build(in, &ret->spec);
    if (rc != 0) {
        arena_fini(&in->arena);
        return rc;
    }
    ret->arena = in->arena;
    ret->written = in->spec;
    ret->file = args_text(in->args, "file");
    if (!ret->file && in->args->word_count > 0 && job_input_is_file(in->args->words[0]))
        ret->file = in->args->words[0];
    return 0;
}

int job_input(const struct args *args, struct job_input *ret, struct error *err)
{
    struct input in = {.args = args, .err = err};
    return read_input(&in, ret);
}

int job_input_shape(const struct args *args, struct job_input *ret, struct error *err)
{
    struct input in = {.args = args, .err = err, .shape = true};
    return read_input(&in, ret);
}

void job_input_fini(struct job_input *input)
{
    rpc_message_free(input->spec);
    arena_fini(&input->arena);
    *input = (struct job_input){0};
}

void job_input_blame(const struct job_input *input, struct error *err)
{
    char path[sizeof(err->field)];
    const struct tree *node = NULL;
    if (!input->file || !err->field[0])
        return;
    (void)str_copy(path, sizeof(path), err->field);
    /* An error about a default missing in the file belongs to the map around it. */
    while (!(node = tree_find(input->written, path)) && strrchr(path, '.'))
        *strrchr(path, '.') = '\0';
    if (node && node->line > 0)
        (void)error_wrap(err, "%s: line %d, column %d", shown_name(input->file), node->line,
                         node->column);
}

bool job_input_given(const struct args *args)
{
    static const struct args_option rows[] = {JOB_OPTIONS, {0}};
    for (const struct args_option *row = rows; row->name; row++)
        if (row->kind == ARGS_COMMAND ? args->word_count > 0 : args_given(args, row->name))
            return true;
    return false;
}
