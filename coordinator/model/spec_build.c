/* From a submitted specification to a validated one. */
#include <string.h>

#include "common/base/arena.h"
#include "common/base/assert.h"
#include "common/base/parse.h"
#include "common/settings/accelerate.h"
#include "common/settings/rules.h"
#include "coordinator/model/spec_internal.h"

static void spec_fill(struct spec *spec)
{
    const struct spec_value *values = spec->values;
    spec->nodes_min = (int)values[JOB_FIELD_NODES].low;
    spec->nodes_max = (int)values[JOB_FIELD_NODES].high;
    spec->spares = (int)values[JOB_FIELD_SPARES].low;
    spec->workers_per_node = (int)values[JOB_FIELD_WORKERS_PER_NODE].low;
    spec->resources.slots = (int)values[JOB_FIELD_SLOTS].low;
    spec->resources.cpus_milli = (int)values[JOB_FIELD_CPUS].low;
    spec->resources.memory_bytes = values[JOB_FIELD_MEMORY].low;
    spec->priority = (int)values[JOB_FIELD_PRIORITY].low;
    spec->max_runtime_ms = values[JOB_FIELD_MAX_RUNTIME].low;
    spec->grace_ms = values[JOB_FIELD_GRACE].low;
    spec->early_signal = (int)values[JOB_FIELD_EARLY_SIGNAL].low;
    spec->early_signal_ms = values[JOB_FIELD_EARLY_SIGNAL].high;
    spec->restart_max = (int)values[JOB_FIELD_RESTART_MAX].low;
    spec->backoff_min_ms = values[JOB_FIELD_BACKOFF].low;
    spec->backoff_max_ms = values[JOB_FIELD_BACKOFF].high;
    spec->stop_without_progress = values[JOB_FIELD_ON_NO_PROGRESS].low != AFTER_FAILURE_RETRY;
    spec->stop_on_failure = values[JOB_FIELD_ON_FAILURE].low == AFTER_FAILURE_STOP;
    spec->elastic = (enum elastic)values[JOB_FIELD_ELASTIC].low;
    spec->checkpoint_keep = (int)values[JOB_FIELD_CHECKPOINT_KEEP].low;
}

static int check_checkpoint(const struct spec_input *in, struct error *err)
{
    if (spec_given(in->checkpoint_dir) ||
        (!spec_given(in->checkpoint_every) && !in->checkpoint_keep))
        return 0;
    return spec_refuse(err, "checkpoint.dir", "name a folder every node reaches",
                       "checkpoints are wanted but there is no folder for them");
}

static int check_early_signal(const struct spec *spec, struct error *err)
{
    char early[FORMAT_MAX], most[FORMAT_MAX];
    if (!spec->early_signal_ms)
        return 0;
    if (!spec->max_runtime_ms)
        return spec_refuse(err, "signal", "set max_runtime, or leave signal out",
                           "signal is sent before max_runtime is over, and the job has none");
    if (spec->early_signal_ms < spec->max_runtime_ms)
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "signal is sent %s before the end, but max_runtime is %s",
              format_duration_exact(spec->early_signal_ms, early),
              format_duration_exact(spec->max_runtime_ms, most));
    error_field(err, "signal");
    error_hint(err, "a time shorter than max_runtime");
    return E_INVALID_ARGUMENT;
}

static int check_workdir(const struct spec_input *in, struct error *err)
{
    if (!spec_given(in->workdir) || in->workdir[0] == '/' || in->stored)
        return 0;
    return spec_refuse(err, "workdir", "a path that begins with /, the same on every node",
                       "a relative workdir would be looked for in each agent's own folder");
}

/* Values that fit their rows may not fit each other. */
static int check_together(const struct spec_input *in, struct spec *spec, struct error *err)
{
    int rc = spec_check_fixed(in, spec, err);
    if (!rc)
        rc = check_checkpoint(in, err);
    if (!rc)
        rc = check_early_signal(spec, err);
    if (!rc)
        rc = spec_check_constraints(in, err);
    if (!rc)
        rc = spec_check_env(in, err);
    if (!rc)
        rc = spec_check_secrets(in, err);
    if (!rc)
        rc = spec_check_training(in, err);
    if (!rc)
        rc = spec_check_mesh(in, spec, err);
    if (!rc)
        rc = spec_check_world(in, spec, err);
    if (!rc && in->json && strlen(in->json) > SPEC_TEXT_MAX_BYTES)
        rc = spec_refuse(err, "", "256 KiB at most", "the specification is too large");
    if (rc)
        return rc;
    return check_workdir(in, err);
}

static const char *copy_text(struct arena *arena, const char *text)
{
    const char *copy = arena_strdup(arena, text ? text : "");
    insist(copy); /* validation limited the sum below the arena's limit */
    return copy;
}

static void add_warnings(struct arena *arena, const struct spec_input *in, struct spec *spec)
{
    const char *said[SETTINGS_COUNT];
    struct finding found[FINDINGS_MAX];
    char untold[ACCELERATE_TEXT_MAX], secret[SPEC_WARNING_MAX];
    int count = 0;
    spec_settings(in, said);
    int all = settings_check_rules(said, RULES_FOR_JOB, found);
    spec->warnings = arena_array(arena, (size_t)all + 4, sizeof(*spec->warnings));
    insist(spec->warnings);
    for (int i = 0; i < all; i++)
        if (!found[i].refused) /* except in a spec stored under other rules */
            spec->warnings[count++] = copy_text(arena, found[i].text);
    accelerate_untold(said, untold);
    if (*untold && accelerate_may_run(in->command, in->command_count))
        spec->warnings[count++] = copy_text(arena, untold);
    if (spec_secret_warning(in, secret))
        spec->warnings[count++] = copy_text(arena, secret);
    if (spec_world_warning(spec))
        spec->warnings[count++] = copy_text(arena, spec_world_warning(spec));
    spec->warnings_count = count;
}

static struct pair *copy_pairs(struct arena *arena, const struct pair *pairs, int count)
{
    struct pair *copies = arena_array(arena, (size_t)count + 1, sizeof(*copies));
    insist(copies);
    for (int i = 0; i < count; i++)
        copies[i] = (struct pair){copy_text(arena, pairs[i].key), copy_text(arena, pairs[i].value)};
    return copies;
}

/* Texts that the spec borrows become its own. */
static void own_texts(struct arena *arena, struct spec *spec)
{
    for (int i = 0; i < JOB_FIELDS_COUNT; i++)
        if (spec->values[i].text)
            spec->values[i].text = copy_text(arena, spec->values[i].text);
    spec->json = copy_text(arena, spec->json);
    spec->constraints = copy_pairs(arena, spec->constraints, spec->constraints_count);
    spec->name = spec->values[JOB_FIELD_NAME].text;
    spec->tenant = spec->values[JOB_FIELD_TENANT].text;
    spec->workdir = spec->values[JOB_FIELD_WORKDIR].text;
    spec->checkpoint_dir = spec->values[JOB_FIELD_CHECKPOINT_DIR].text;
    spec->topology = spec->values[JOB_FIELD_TOPOLOGY].text;
}

int spec_build(const struct spec_input *input, struct spec **ret, struct error *err)
{
    struct spec spec = {.references = 1,
                        .json = input->json,
                        .constraints = input->constraints,
                        .constraints_count = input->constraints_count,
                        .secrets_count = input->secrets_count,
                        .resumes = spec_given(spec_training(input, "resume_from"))};
    int rc = spec_values(input, spec.values, err);
    if (rc)
        return rc;
    spec_fill(&spec);
    rc = check_together(input, &spec, err);
    if (rc)
        return rc;
    struct spec_block *block = spec_block_new();
    own_texts(&block->arena, &spec);
    add_warnings(&block->arena, input, &spec);
    block->spec = spec;
    *ret = &block->spec;
    return 0;
}

struct spec *spec_resize(const struct spec *spec, int nodes_min, int nodes_max)
{
    struct spec_block *block = spec_block_new();
    struct spec resized = *spec;
    own_texts(&block->arena, &resized);
    resized.warnings =
        arena_array(&block->arena, (size_t)spec->warnings_count + 1, sizeof(*resized.warnings));
    insist(resized.warnings);
    for (int i = 0; i < spec->warnings_count; i++)
        resized.warnings[i] = copy_text(&block->arena, spec->warnings[i]);
    resized.references = 1;
    resized.nodes_min = nodes_min;
    resized.nodes_max = nodes_max;
    block->spec = resized;
    return &block->spec;
}
