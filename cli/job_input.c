#include "cli/job_input.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/arena.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/rpc/message.h"
#include "common/rpc/spec.h"

enum { INPUT_ARENA_BYTES = 8 << 20 };

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
        if (buf_append(ret, block, got) || ret->size > SPEC_MAX_BYTES)
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
    if (!rc) {
        struct tree_input input = {.name = name, .text = buf_cstr(&text), .size = text.size};
        rc = tree_looks_like_json(input.text, input.size)
                 ? tree_parse_json(&input, &in->arena, &in->spec, in->err)
                 : tree_parse_yaml(&input, &in->arena, &in->spec, in->err);
    }
    buf_fini(&text);
    if (!rc && in->spec->kind == TREE_NULL)
        return error_set(in->err, E_INVALID_ARGUMENT,
                         "%s is empty: a job spec has at least a command", name);
    if (!rc && in->spec->kind != TREE_MAP)
        rc = error_set(in->err, E_INVALID_ARGUMENT, "%s: a job spec is a map of keys, this is %s",
                       name, tree_kind_name(in->spec->kind));
    return rc;
}

bool job_input_is_file(const char *word)
{
    return strcmp(word, "-") == 0 || str_ends(word, ".yaml") || str_ends(word, ".yml") ||
           str_ends(word, ".json");
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

static int build_spec(struct input *in, Muster__JobSpec **ret)
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
    if (rc)
        return rc;
    if (file || word_is_file)
        rc = parse_file(in, file ? file : in->args->words[0]);
    else
        in->spec = tree_map(&in->arena);
    if (!rc && !word_is_file)
        rc = set_command(in);
    if (!rc)
        rc = job_flags_apply(&(struct job_flags){in->args, &in->arena, in->spec, in->err});
    if (rc)
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
    if (rc && str_starts(in->err->text, "line "))
        (void)error_wrap(in->err, "%s",
                         from_file ? shown_name(file ? file : in->args->words[0]) : "options");
    return rc;
}

static int read_input(struct input *in, struct job_input *ret)
{
    arena_init(&in->arena, INPUT_ARENA_BYTES);
    int rc = build_spec(in, &ret->spec);
    if (rc) {
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
