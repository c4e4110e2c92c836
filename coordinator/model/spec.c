#include "coordinator/model/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/assert.h"
#include "common/base/meant.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/settings/accelerate.h"
#include "common/settings/judge.h"
#include "common/settings/variable.h"
#include "coordinator/model/spec_internal.h"

enum {
    SPEC_TEXTS_MAX_BYTES = 2 * SPEC_TEXT_MAX_BYTES,
    CPUS_MAX = 4096,
    SLOTS_MAX = 256, /* NODE_SLOTS_MAX */
    RESTARTS_MAX = 1000,
    BACKOFF_MIN_DEFAULT_MS = 1000,
    BACKOFF_MAX_DEFAULT_MS = 60000,
    BACKOFF_LIMIT_MS = 24 * 3600 * 1000,
    LABEL_MAX = 63,
    CHECKPOINT_DIR_MAX = 900, /* leaves room for "/step-00000200/rank-..." in a path */
    PRIORITY_LOW = -100,
    PRIORITY_HIGH = 100,
    SPEC_FIELD_MAX = 96,
};

struct block { /* what spec_build allocates: the spec and its strings, freed together */
    struct spec spec;
    struct arena arena;
};

struct spec *spec_hold(struct spec *spec)
{
    insist(spec->references > 0);
    spec->references++;
    return spec;
}

void spec_release(struct spec *spec)
{
    if (!spec || --spec->references > 0)
        return;
    struct block *block = (struct block *)spec;
    arena_fini(&block->arena);
    free(block);
}

static bool given(const char *text)
{
    return text && text[0];
}

static int bad(struct error *err, const char *field, const char *hint, const char *text)
{
    error_set(err, E_INVALID_ARGUMENT, "%s", text);
    error_field(err, "%s", field);
    error_hint(err, "%s", hint);
    return E_INVALID_ARGUMENT;
}

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static int check_name(const char *text, const char *field, struct error *err)
{
    const char *hint = "lower-case letters, digits, '.' and '-', first a letter or digit, "
                       "63 characters at most";
    if (!given(text))
        return bad(err, field, hint, "a name is required");
    bool ok = strlen(text) <= SPEC_NAME_MAX && is_lower_or_digit(text[0]);
    for (const char *c = text; ok && *c; c++)
        ok = is_lower_or_digit(*c) || *c == '.' || *c == '-';
    if (ok)
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "'%.80s' is not a name", text);
    error_field(err, "%s", field);
    error_hint(err, "%s", hint);
    return E_INVALID_ARGUMENT;
}

/* The index of `text` among `names` (NULL-terminated), 0 if it is absent. */
static int choose(const char *text, const char *const *names, const char *field, int *ret,
                  struct error *err)
{
    *ret = 0;
    if (!given(text))
        return 0;
    char all[128] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = i;
            return 0;
        }
        size_t used = strlen(all);
        (void)str_printf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "", names[i]);
    }
    error_set(err, E_INVALID_ARGUMENT, "'%.80s' is none of %s", text, all);
    error_field(err, "%s", field);
    if (!meant_hint(err, text, names))
        error_hint(err, "one of %s", all);
    return E_INVALID_ARGUMENT;
}

static int build_command(const struct spec_input *in, struct error *err)
{
    if (in->command_count <= 0 || !given(in->command[0]))
        return bad(err, "command", "command: [program, argument, ...]", "a command is required");
    if (in->command_count > SPEC_ARGS_MAX)
        return bad(err, "command", "put long lists into a file the program reads",
                   "the command has more than 1024 arguments");
    return 0;
}

static int build_nodes(const struct spec_input *in, struct spec *spec, struct error *err)
{
    uint32_t min = in->nodes_min, max = in->nodes_max;
    if (min == 0)
        min = 1;
    if (max == 0)
        max = min;
    if (min > max) {
        error_set(err, E_INVALID_ARGUMENT, "nodes.min is %u but nodes.max is %u", min, max);
        error_field(err, "nodes.min");
        error_hint(err, "min must not be above max");
        return E_INVALID_ARGUMENT;
    }
    if (max > SPEC_NODES_MAX)
        return bad(err, "nodes.max", "10000 at most", "too many nodes");
    if (in->workers_per_node > SPEC_WORKERS_PER_NODE_MAX)
        return bad(err, "workers_per_node", "64 at most", "too many workers per node");
    if (in->spares > SPEC_SPARES_MAX)
        return bad(err, "nodes.spares", "64 at most", "too many spare nodes");
    spec->nodes_min = (int)min;
    spec->nodes_max = (int)max;
    spec->spares = (int)in->spares;
    spec->workers_per_node = in->workers_per_node ? (int)in->workers_per_node : 1;
    return 0;
}

static int build_resources(const struct spec_input *in, struct spec *spec, struct error *err)
{
    if (in->slots > SLOTS_MAX)
        return bad(err, "resources.slots", "256 at most", "too many slots for one worker");
    if (!isfinite(in->cpus) || in->cpus < 0 || in->cpus > CPUS_MAX)
        return bad(err, "resources.cpus", "a number above 0, 4096 at most; fractions are fine",
                   "not a number of CPUs");
    spec->resources.slots = in->slots ? (int)in->slots : 1;
    spec->resources.cpus_milli = in->cpus > 0 ? (int)lround(in->cpus * 1000) : 1000;
    if (spec->resources.cpus_milli == 0)
        spec->resources.cpus_milli = 1;
    if (!given(in->memory))
        return 0;
    uint64_t bytes;
    int rc = parse_bytes(in->memory, &bytes, err);
    if (rc == 0 && (bytes == 0 || bytes > INT64_MAX / SPEC_WORKERS_PER_NODE_MAX))
        rc = error_set(err, E_INVALID_ARGUMENT, "memory of '%s' is out of range", in->memory);
    if (rc < 0) {
        error_field(err, "resources.memory");
        error_hint(err, "a size such as 512MiB or 2GiB");
        return E_INVALID_ARGUMENT;
    }
    spec->resources.memory_bytes = (int64_t)bytes;
    return 0;
}

static int build_priority(const struct spec_input *in, struct spec *spec, struct error *err)
{
    if (!given(in->priority) || strcmp(in->priority, "normal") == 0)
        return 0;
    int64_t value;
    if (strcmp(in->priority, "low") == 0)
        value = PRIORITY_LOW;
    else if (strcmp(in->priority, "high") == 0)
        value = PRIORITY_HIGH;
    else if (parse_i64(in->priority, -SPEC_PRIORITY_LIMIT, SPEC_PRIORITY_LIMIT, &value, err) < 0) {
        error_set(err, E_INVALID_ARGUMENT, "'%.80s' is not a priority", in->priority);
        error_field(err, "priority");
        error_hint(err, "low, normal, high, or a number from -1000 to 1000");
        return E_INVALID_ARGUMENT;
    }
    spec->priority = (int)value;
    return 0;
}

static int duration(const char *text, const char *field, const char *hint, int64_t *ret_ms,
                    struct error *err)
{
    if (parse_duration(text, ret_ms, err) == 0)
        return 0;
    error_field(err, "%s", field);
    error_hint(err, "%s", hint);
    return E_INVALID_ARGUMENT;
}

static int build_backoff(const char *text, struct spec *spec, struct error *err)
{
    static const char field[] = "restart.backoff", hint[] = "a range such as 1s..1m";
    spec->backoff_min_ms = BACKOFF_MIN_DEFAULT_MS;
    spec->backoff_max_ms = BACKOFF_MAX_DEFAULT_MS;
    if (!given(text))
        return 0;
    char low[64];
    const char *dots = strstr(text, ".."), *dash = strchr(text, '-');
    const char *end = dots ? dots : dash;
    size_t size = end ? (size_t)(end - text) : strlen(text);
    if (size >= sizeof(low))
        return bad(err, field, hint, "not a range of times");
    memcpy(low, text, size);
    low[size] = 0;
    int rc = duration(low, field, hint, &spec->backoff_min_ms, err);
    if (rc < 0)
        return rc;
    spec->backoff_max_ms = spec->backoff_min_ms;
    rc = end ? duration(end + (dots ? 2 : 1), field, hint, &spec->backoff_max_ms, err) : 0;
    if (rc < 0)
        return rc;
    if (spec->backoff_min_ms > spec->backoff_max_ms || spec->backoff_max_ms > BACKOFF_LIMIT_MS)
        return bad(err, field, "the shorter time first, a day at most", "not a range of times");
    return 0;
}

static int build_restart(const struct spec_input *in, struct spec *spec, struct error *err)
{
    static const char *const on_no_progress[] = {"stop", "retry", NULL};
    static const char *const on_failure[] = {"retry", "stop", NULL};
    static const char *const elastic[] = {"in_place", "restart", "off", NULL};
    if (in->has_restart && in->restart_max > RESTARTS_MAX)
        return bad(err, "restart.max", "1000 at most", "too many restarts");
    spec->restart_max = in->has_restart ? (int)in->restart_max : SPEC_RESTARTS_DEFAULT;
    int which;
    int rc = choose(in->on_no_progress, on_no_progress, "restart.on_no_progress", &which, err);
    if (rc < 0)
        return rc;
    spec->stop_without_progress = which == 0;
    rc = choose(in->on_failure, on_failure, "restart.on_failure", &which, err);
    if (rc < 0)
        return rc;
    spec->stop_on_failure = which == 1;
    rc = choose(in->elastic, elastic, "elastic", &which, err);
    if (rc < 0)
        return rc;
    spec->elastic = (enum elastic)which;
    rc = spec_check_fixed(in, spec, err);
    return rc < 0 ? rc : build_backoff(in->backoff, spec, err);
}

static int check_every(const char *text, struct error *err)
{
    static const char hint[] = "\"200 steps\" or a time such as \"10m\"";
    int64_t value;
    if (!given(text))
        return 0;
    const char *unit = strchr(text, ' ');
    if (!unit)
        return duration(text, "checkpoint.every", hint, &value, err);
    char number[24];
    size_t size = (size_t)(unit - text);
    bool ok = size < sizeof(number) && (strcmp(unit, " steps") == 0 || strcmp(unit, " step") == 0);
    if (ok) {
        memcpy(number, text, size);
        number[size] = 0;
        ok = parse_i64(number, 1, INT64_MAX, &value, NULL) == 0;
    }
    return ok ? 0 : bad(err, "checkpoint.every", hint, "not an interval");
}

static int build_checkpoint(const struct spec_input *in, struct spec *spec, struct error *err)
{
    if (!given(in->checkpoint_dir) && (given(in->checkpoint_every) || in->checkpoint_keep))
        return bad(err, "checkpoint.dir", "name a folder every node reaches",
                   "checkpoints are wanted but there is no folder for them");
    if (given(in->checkpoint_dir) && strlen(in->checkpoint_dir) > CHECKPOINT_DIR_MAX)
        return bad(err, "checkpoint.dir", "900 bytes at most", "the path is too long");
    if (in->checkpoint_keep > INT32_MAX)
        return bad(err, "checkpoint.keep", "0 keeps all", "too many checkpoints");
    spec->checkpoint_keep = (int)in->checkpoint_keep;
    return check_every(in->checkpoint_every, err);
}

static int check_constraints(const struct spec_input *in, struct error *err)
{
    if (in->constraints_count > SPEC_LABELS_MAX)
        return bad(err, "constraints", "32 at most", "too many constraints");
    for (int i = 0; i < in->constraints_count; i++) {
        const struct pair *pair = &in->constraints[i];
        if (!given(pair->key) || strlen(pair->key) > LABEL_MAX || strlen(pair->value) > LABEL_MAX) {
            error_set(err, E_INVALID_ARGUMENT, "'%.80s' is not a label and its value", pair->key);
            error_field(err, "constraints.%.80s", pair->key);
            error_hint(err, "1 to 63 bytes each; `muster nodes -o yaml` shows the nodes' labels");
            return E_INVALID_ARGUMENT;
        }
    }
    if (given(in->topology) && strlen(in->topology) > LABEL_MAX)
        return bad(err, "topology", "the name of a node label", "the label is too long");
    return 0;
}

const char *spec_training(const struct spec_input *in, const char *name)
{
    for (int i = 0; i < in->training_count; i++)
        if (strcmp(in->training[i].key, name) == 0)
            return in->training[i].value;
    return NULL;
}

/* Check the value of a setting in `field`. */
static int check_setting(enum setting setting, const char *text, const char *field,
                         struct error *err)
{
    struct setting_parsed ignored;
    if (setting_parse(setting, text, &ignored, err) == 0)
        return 0;
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

/* Names that begin with MUSTER_ are reserved. Those that each worker gets cannot be set, and one
 * that nothing reads is a mistake. */
static int check_variable(const struct spec_input *in, const struct pair *pair, struct error *err)
{
    char field[SPEC_FIELD_MAX], meant[SETTING_ENV_MAX];
    (void)str_printf(field, sizeof(field), "env.%.80s", pair->key);
    if (variable_reserved(pair->key)) {
        error_set(err, E_INVALID_ARGUMENT, "%.80s is set by Muster for each worker", pair->key);
        error_field(err, "%s", field);
        error_hint(err, strcmp(pair->key, "MUSTER_RESUME_FROM") == 0 ||
                                strcmp(pair->key, "MUSTER_CHECKPOINT_DIR") == 0
                            ? "set checkpoint.dir and training.resume_from instead"
                            : "leave it out");
        return E_INVALID_ARGUMENT;
    }
    if (variable_unknown(pair->key, meant)) {
        error_set(err, E_INVALID_ARGUMENT,
                  "%.80s is no variable that Muster knows: nothing reads it", pair->key);
        error_field(err, "%s", field);
        if (*meant)
            error_hint(err, "did you mean %s?", meant);
        else
            error_hint(err, "`muster env` lists the settings; names of your own begin otherwise");
        return E_INVALID_ARGUMENT;
    }
    int setting = variable_setting(pair->key);
    if (setting < 0 || !given(pair->value))
        return 0;
    const char *name = setting_rows[setting].name, *said = spec_training(in, name);
    if (said && strcmp(said, pair->value) != 0) {
        error_set(err, E_INVALID_ARGUMENT, "%s is '%.80s', but training has %s: %.80s", pair->key,
                  pair->value, name, said);
        error_field(err, "%s", field);
        error_hint(err, "set it once, under training");
        return E_INVALID_ARGUMENT;
    }
    return check_setting((enum setting)setting, pair->value, field, err);
}

bool spec_is_variable(const char *name)
{
    bool ok = given(name) && !(name[0] >= '0' && name[0] <= '9');
    for (const char *c = name; ok && *c; c++)
        ok = is_lower_or_digit(*c) || (*c >= 'A' && *c <= 'Z') || *c == '_';
    return ok;
}

static int check_env(const struct spec_input *in, struct error *err)
{
    if (in->env_count > SPEC_ENV_MAX)
        return bad(err, "env", "512 at most", "too many variables");
    for (int i = 0; i < in->env_count; i++) {
        const char *key = in->env[i].key;
        if (!spec_is_variable(key)) {
            error_set(err, E_INVALID_ARGUMENT, "'%.80s' is no variable's name", key);
            error_field(err, "env.%.80s", key);
            error_hint(err, "letters, digits and '_', first no digit");
            return E_INVALID_ARGUMENT;
        }
        int rc = in->stored ? 0 : check_variable(in, &in->env[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int check_named(const struct pair *pair, struct error *err)
{
    char field[SPEC_FIELD_MAX];
    int setting = settings_find(pair->key);
    (void)str_printf(field, sizeof(field), "training.%.80s", pair->key);
    if (setting >= 0 && setting_rows[setting].use == SETTING_OF_JOB) {
        int rc = check_setting((enum setting)setting, pair->value, field, err);
        return rc < 0 ? rc : 0;
    }
    error_set(err, E_INVALID_ARGUMENT,
              setting < 0 ? "no setting is called '%.80s'" : "%.80s may not be set under training",
              pair->key);
    error_field(err, "%s", field);
    if (setting >= 0)
        error_hint(err, "a job sets checkpoint.dir, every and keep under checkpoint");
    else
        settings_meant(err, pair->key);
    return E_INVALID_ARGUMENT;
}

/* The job's value of each setting, from any field; NULL if absent. */
static void collect_given(const struct spec_input *in, const char *ret[SETTINGS_COUNT])
{
    for (int i = 0; i < SETTINGS_COUNT; i++)
        ret[i] = spec_training(in, setting_rows[i].name);
    for (int i = 0; i < in->env_count; i++) {
        int setting = variable_setting(in->env[i].key);
        if (setting >= 0 && given(in->env[i].value))
            ret[setting] = in->env[i].value;
    }
    if (given(in->checkpoint_dir))
        ret[SETTING_CHECKPOINT_DIR] = in->checkpoint_dir;
}

/* Refuse what every worker would refuse. */
static int check_contradictions(const struct spec_input *in, struct error *err)
{
    const char *said[SETTINGS_COUNT];
    enum setting setting;
    collect_given(in, said);
    int rc = settings_refused(said, JUDGE_JOB, &setting, err);
    if (rc == 0)
        return 0;
    err->code = E_INVALID_ARGUMENT;
    error_field(err, "training.%s", setting_rows[setting].name);
    error_hint(err, rc == E_UNIMPLEMENTED
                        ? "leave it out; a program of another library may set it itself"
                        : "every worker would end with this: change one of the two");
    return E_INVALID_ARGUMENT;
}

static int check_training(const struct spec_input *in, struct spec *spec, struct error *err)
{
    for (int i = 0; i < in->training_count && !in->stored; i++) {
        int rc = check_named(&in->training[i], err);
        if (rc < 0)
            return rc;
    }
    const char *from = spec_training(in, "resume_from");
    spec->resumes = given(from);
    int rc = in->stored ? 0 : check_contradictions(in, err);
    return rc < 0 ? rc : spec_check_mesh(in, spec, err);
}

static int validate(const struct spec_input *in, struct spec *spec, struct error *err)
{
    const char *tenant = given(in->tenant) ? in->tenant : "default";
    int rc = build_command(in, err); /* first: an unnamed job gets its name from its command */
    if (rc == 0)
        rc = check_name(in->name, "name", err);
    if (rc == 0)
        rc = check_name(tenant, "tenant", err);
    if (rc == 0)
        rc = build_nodes(in, spec, err);
    if (rc == 0)
        rc = build_resources(in, spec, err);
    if (rc == 0)
        rc = build_priority(in, spec, err);
    if (rc == 0 && given(in->max_runtime))
        rc = duration(in->max_runtime, "max_runtime", "a time such as 90m or 2h",
                      &spec->max_runtime_ms, err);
    if (rc == 0)
        rc = build_restart(in, spec, err);
    if (rc == 0)
        rc = build_checkpoint(in, spec, err);
    if (rc == 0)
        rc = check_constraints(in, err);
    if (rc == 0)
        rc = check_env(in, err);
    if (rc == 0)
        rc = spec_check_secrets(in, err);
    if (rc == 0)
        rc = check_training(in, spec, err);
    if (rc == 0)
        rc = spec_check_world(in, spec, err);
    if (rc == 0 && in->json && strlen(in->json) > SPEC_TEXT_MAX_BYTES)
        rc = bad(err, "", "256 KiB at most", "the specification is too large");
    return rc;
}

static const char *keep(struct arena *arena, const char *text)
{
    const char *copy = arena_strdup(arena, text ? text : "");
    insist(copy); /* validation limited the sum below the arena's limit */
    return copy;
}

static void put_warnings(struct arena *arena, const struct spec_input *in, struct spec *spec)
{
    const char *said[SETTINGS_COUNT];
    struct finding found[FINDINGS_MAX];
    char untold[ACCELERATE_TEXT_MAX], secret[SPEC_WARNING_MAX];
    int count = 0;
    collect_given(in, said);
    int all = settings_judge(said, JUDGE_JOB, found);
    spec->warnings = arena_array(arena, (size_t)all + 4, sizeof(*spec->warnings));
    insist(spec->warnings);
    for (int i = 0; i < all; i++)
        if (!found[i].refused) /* except in a spec stored under other rules */
            spec->warnings[count++] = keep(arena, found[i].text);
    accelerate_untold(said, untold);
    if (*untold && accelerate_may_run(in->command, in->command_count))
        spec->warnings[count++] = keep(arena, untold);
    if (spec_secret_warning(in, secret))
        spec->warnings[count++] = keep(arena, secret);
    if (spec_world_warning(spec))
        spec->warnings[count++] = keep(arena, spec_world_warning(spec));
    spec->warnings_count = count;
}

static void copy_texts(struct arena *arena, const struct spec_input *in, struct spec *spec)
{
    spec->json = keep(arena, in->json);
    spec->name = keep(arena, in->name);
    spec->tenant = keep(arena, given(in->tenant) ? in->tenant : "default");
    spec->workdir = keep(arena, in->workdir);
    spec->checkpoint_dir = keep(arena, in->checkpoint_dir);
    spec->topology = keep(arena, in->topology);
    spec->constraints_count = in->constraints_count;
    spec->constraints = arena_array(arena, (size_t)in->constraints_count + 1, sizeof(struct pair));
    insist(spec->constraints);
    for (int i = 0; i < in->constraints_count; i++) {
        spec->constraints[i].key = keep(arena, in->constraints[i].key);
        spec->constraints[i].value = keep(arena, in->constraints[i].value);
    }
}

static int check_workdir(const struct spec_input *in, struct error *err)
{
    if (!given(in->workdir))
        return 0;
    if (strlen(in->workdir) > CHECKPOINT_DIR_MAX)
        return bad(err, "workdir", "900 bytes at most", "the path is too long");
    if (in->workdir[0] != '/' && !in->stored)
        return bad(err, "workdir", "a path that begins with /, the same on every node",
                   "a relative workdir would be looked for in each agent's own folder");
    return 0;
}

int spec_build(const struct spec_input *input, struct spec **ret, struct error *err)
{
    struct spec spec = {.references = 1, .secrets_count = input->secrets_count};
    int rc = validate(input, &spec, err);
    if (rc < 0)
        return rc;
    rc = check_workdir(input, err);
    if (rc < 0)
        return rc;
    struct block *block = calloc(1, sizeof(*block));
    insist(block);
    arena_init(&block->arena, SPEC_TEXTS_MAX_BYTES);
    copy_texts(&block->arena, input, &spec);
    put_warnings(&block->arena, input, &spec);
    block->spec = spec;
    *ret = &block->spec;
    return 0;
}

struct spec *spec_resize(const struct spec *spec, int nodes_min, int nodes_max)
{
    const struct spec_input texts = {.json = spec->json,
                                     .name = spec->name,
                                     .tenant = spec->tenant,
                                     .workdir = spec->workdir,
                                     .checkpoint_dir = spec->checkpoint_dir,
                                     .topology = spec->topology,
                                     .constraints = spec->constraints,
                                     .constraints_count = spec->constraints_count};
    struct block *block = calloc(1, sizeof(*block));
    insist(block);
    arena_init(&block->arena, SPEC_TEXTS_MAX_BYTES);
    struct spec resized = *spec;
    copy_texts(&block->arena, &texts, &resized);
    resized.warnings =
        arena_array(&block->arena, (size_t)spec->warnings_count + 1, sizeof(*resized.warnings));
    insist(resized.warnings);
    for (int i = 0; i < spec->warnings_count; i++)
        resized.warnings[i] = keep(&block->arena, spec->warnings[i]);
    resized.references = 1;
    resized.nodes_min = nodes_min;
    resized.nodes_max = nodes_max;
    block->spec = resized;
    return &block->spec;
}
