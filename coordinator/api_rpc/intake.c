#include "coordinator/api_rpc/intake.h"

#include <math.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/str.h"
#include "common/rpc/spec.h"
#include "common/rpc/training.h"
#include "common/rpc/transcode.h"

int intake_name(const char *name, const char *field, struct error *err)
{
    size_t size = strlen(name);
    bool good = size > 0 && size <= NODE_NAME_MAX && name[0] != '-' && name[0] != '.';
    for (size_t i = 0; good && i < size; i++)
        good = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') ||
               name[i] == '-' || name[i] == '.';
    if (good)
        return 0;
    error_set(err, E_INVALID_ARGUMENT,
              "'%.80s' is no name: 1 to %d of a-z 0-9 - ., not starting with - or .", name,
              NODE_NAME_MAX);
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static void intake_constraints(const Muster__JobSpec *message, struct pair *pairs,
                               struct spec_input *input)
{
    for (size_t i = 0; i < message->n_constraints; i++)
        pairs[i] = (struct pair){message->constraints[i]->key, message->constraints[i]->value};
    input->constraints = pairs;
    input->constraints_count = (int)message->n_constraints;
}

static void intake_env(const Muster__JobSpec *message, struct pair *pairs, struct spec_input *input)
{
    for (size_t i = 0; i < message->n_env; i++)
        pairs[i] = (struct pair){message->env[i]->key, message->env[i]->value};
    input->env = pairs;
    input->env_count = (int)message->n_env;
}

static void intake_secrets(const Muster__JobSpec *message, struct pair *pairs,
                           struct spec_input *input)
{
    for (size_t i = 0; i < message->n_secrets; i++)
        pairs[i] = (struct pair){message->secrets[i]->key, message->secrets[i]->value};
    input->secrets = pairs;
    input->secrets_count = (int)message->n_secrets;
}

static int intake_training(const Muster__Training *message, struct arena *arena,
                           struct spec_input *input, struct error *err)
{
    struct training_setting *list;
    int count, rc = training_list(message, arena, &list, &count, err);
    struct pair *pairs = rc == 0 ? arena_array(arena, (size_t)count + 1, sizeof(*pairs)) : NULL;
    if (rc < 0)
        return rc;
    if (!pairs)
        return error_set(err, E_RESOURCE_EXHAUSTED, "spec: too large");
    for (int i = 0; i < count; i++)
        pairs[i] = (struct pair){list[i].name, list[i].value};
    input->training = pairs;
    input->training_count = count;
    return 0;
}

static void intake_parts(const Muster__JobSpec *message, struct spec_input *input)
{
    if (message->nodes) {
        input->nodes_min = message->nodes->min;
        input->nodes_max = message->nodes->max;
        input->spares = message->nodes->spares;
    }
    if (message->resources) {
        input->slots = message->resources->slots;
        input->cpus = message->resources->cpus;
        input->memory = message->resources->memory;
    }
    if (message->restart) {
        input->has_restart = true;
        input->restart_max = message->restart->max;
        input->backoff = message->restart->backoff;
        input->on_no_progress = message->restart->on_no_progress;
        input->on_failure = message->restart->on_failure;
    }
    if (message->checkpoint) {
        input->checkpoint_dir = message->checkpoint->dir;
        input->checkpoint_every = message->checkpoint->every;
        input->checkpoint_keep = message->checkpoint->keep;
    }
}

struct build {
    const Muster__JobSpec *message;
    const char *json;
    bool stored;
    struct buf *meaning; /* from spec_meaning; NULL = not requested */
};

static int build(const struct build *what, struct arena *arena, struct spec **ret,
                 struct error *err)
{
    const Muster__JobSpec *message = what->message;
    struct pair *constraints = arena_array(arena, message->n_constraints, sizeof(*constraints));
    struct pair *env = arena_array(arena, message->n_env, sizeof(*env));
    struct pair *secrets = arena_array(arena, message->n_secrets, sizeof(*secrets));
    if (!constraints || !env || !secrets)
        return error_set(err, E_RESOURCE_EXHAUSTED, "spec: too large");
    struct spec_input input = {
        .json = what->json,
        .stored = what->stored,
        .name = message->name,
        .tenant = message->tenant,
        .workdir = message->workdir,
        .command = (const char *const *)message->command,
        .command_count = (int)message->n_command,
        .workers_per_node = message->workers_per_node,
        .priority = message->priority,
        .max_runtime = message->max_runtime,
        .elastic = message->elastic,
        .topology = message->topology,
    };
    intake_constraints(message, constraints, &input);
    intake_env(message, env, &input);
    intake_secrets(message, secrets, &input);
    intake_parts(message, &input);
    int rc = intake_training(message->training, arena, &input, err);
    if (rc == 0)
        rc = spec_build(&input, ret, err);
    if (rc == 0 && what->meaning)
        spec_meaning(*ret, &input, what->meaning);
    return rc;
}

static int check_counts(const Muster__JobSpec *message, struct error *err)
{
    if (message->n_command > SPEC_ARGS_MAX || message->n_env > SPEC_ENV_MAX ||
        message->n_constraints > SPEC_LABELS_MAX || message->n_secrets > SPEC_SECRETS_MAX)
        return error_set(err, E_INVALID_ARGUMENT,
                         "spec: at most %d words of command, %d of env, %d constraints, %d secrets",
                         SPEC_ARGS_MAX, SPEC_ENV_MAX, SPEC_LABELS_MAX, SPEC_SECRETS_MAX);
    return 0;
}

static int intake(const struct build *what, struct spec **ret, struct error *err)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    int rc = check_counts(what->message, err);
    if (rc == 0)
        rc = build(what, &arena, ret, err);
    arena_fini(&arena);
    return rc;
}

int intake_stored_spec(const Muster__JobSpec *message, const char *json, struct spec **ret,
                       struct error *err)
{
    const struct build what = {.message = message, .json = json, .stored = true};
    return intake(&what, ret, err);
}

static Muster__JobSpec with_name(const Muster__JobSpec *message, char name[SPEC_NAME_MAX + 1])
{
    Muster__JobSpec named = *message;
    if (!named.name || !named.name[0]) {
        spec_name_of(message, name, SPEC_NAME_MAX + 1);
        named.name = name;
    }
    return named;
}

/* As read from the store: what was accepted once is not checked again. */
static bool find_meaning(const Muster__JobSpec *message, struct buf *ret)
{
    struct spec *spec;
    char name[SPEC_NAME_MAX + 1];
    Muster__JobSpec named = with_name(message, name);
    const struct build what = {.message = &named, .json = "", .stored = true, .meaning = ret};
    if (intake(&what, &spec, NULL) < 0)
        return false;
    spec_release(spec);
    return !buf_failed(ret);
}

bool intake_same(const Muster__JobSpec *a, const Muster__JobSpec *b)
{
    struct buf x, y;
    buf_init(&x, 2 * SPEC_TEXT_MAX_BYTES);
    buf_init(&y, 2 * SPEC_TEXT_MAX_BYTES);
    bool same = find_meaning(a, &x) && find_meaning(b, &y) && x.size == y.size &&
                memcmp(x.data, y.data, x.size) == 0;
    buf_fini(&x);
    buf_fini(&y);
    return same;
}

int intake_spec(const Muster__JobSpec *message, struct spec **ret, struct error *err)
{
    struct buf json;
    char name[SPEC_NAME_MAX + 1];
    Muster__JobSpec named = with_name(message, name);
    buf_init(&json, SPEC_TEXT_MAX_BYTES);
    int rc = check_counts(message, err);
    if (rc == 0) {
        rc = transcode_to_json(&named.base, NULL, &json, err);
        if (rc == E_RESOURCE_EXHAUSTED)
            rc = error_set(err, E_INVALID_ARGUMENT, "spec: larger than %d KiB as JSON",
                           SPEC_TEXT_MAX_BYTES >> 10);
    }
    const struct build what = {.message = &named, .json = buf_cstr(&json)};
    if (rc == 0)
        rc = intake(&what, ret, err);
    buf_fini(&json);
    return rc;
}

static int too_much(const char *field, const char *what, struct error *err)
{
    error_set(err, E_INVALID_ARGUMENT, "%s: %s", field, what);
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static int intake_labels(const Muster__RegisterNodeRequest *message, struct node *ret,
                         struct error *err)
{
    if (message->n_labels > NODE_LABELS_MAX)
        return too_much("labels", "too many", err);
    for (size_t i = 0; i < message->n_labels; i++) {
        struct label *label = &ret->labels[i];
        if (str_copy(label->key, sizeof(label->key), message->labels[i]->key) < 0 ||
            str_copy(label->value, sizeof(label->value), message->labels[i]->value) < 0)
            return too_much("labels", "a key or value is longer than 63 bytes", err);
    }
    ret->labels_count = (int)message->n_labels;
    return 0;
}

static int intake_gpus(const Muster__RegisterNodeRequest *message, struct node *ret,
                       struct error *err)
{
    if (message->n_gpus > NODE_GPUS_MAX)
        return too_much("gpus", "too many", err);
    for (size_t i = 0; i < message->n_gpus; i++) {
        const Muster__Gpu *from = message->gpus[i];
        struct gpu *gpu = &ret->gpus[i];
        gpu->index = (int)(from->index & 0xffff);
        gpu->memory_bytes = (int64_t)(from->memory_bytes & INT64_MAX);
        (void)str_copy(gpu->model, sizeof(gpu->model), from->model);
        (void)str_copy(gpu->uuid, sizeof(gpu->uuid), from->uuid);
    }
    ret->gpus_count = (int)message->n_gpus;
    return 0;
}

int intake_node(const Muster__RegisterNodeRequest *message, struct node *ret, struct error *err)
{
    enum { CPUS_MAX = 65536, PORT_MAX = 65535 };
    int rc = intake_name(message->name, "name", err);
    if (rc < 0)
        return rc;
    if (message->slots > NODE_SLOTS_MAX)
        return too_much("slots", "more than a node may have", err);
    if (!(message->cpus >= 0 && message->cpus <= CPUS_MAX))
        return too_much("cpus", "out of range", err);
    if (message->memory_bytes > INT64_MAX)
        return too_much("memory_bytes", "out of range", err);
    if (message->port_first > message->port_last || message->port_last > PORT_MAX)
        return too_much("port_first", "no range of ports", err);
    if (message->incarnation == 0)
        return too_much("incarnation", "must not be 0", err);
    (void)str_copy(ret->name, sizeof(ret->name), message->name);
    if (str_copy(ret->address, sizeof(ret->address), message->address) < 0)
        return too_much("address", "too long", err);
    (void)str_copy(ret->version, sizeof(ret->version), message->version);
    (void)str_copy(ret->unenforced, sizeof(ret->unenforced), message->unenforced);
    ret->incarnation = message->incarnation;
    ret->slots = (int)message->slots;
    ret->cpus_milli = (int)lround(message->cpus * 1000);
    ret->memory_bytes = (int64_t)message->memory_bytes;
    ret->port_first = (int)message->port_first;
    ret->port_last = (int)message->port_last;
    rc = intake_labels(message, ret, err);
    return rc < 0 ? rc : intake_gpus(message, ret, err);
}

static int worker_state(Muster__Worker__State state, enum worker_state *ret, struct error *err)
{
    switch (state) {
    case MUSTER__WORKER__STATE__assigned:
        *ret = WORKER_ASSIGNED;
        return 0;
    case MUSTER__WORKER__STATE__starting:
        *ret = WORKER_STARTING;
        return 0;
    case MUSTER__WORKER__STATE__joined:
        *ret = WORKER_JOINED;
        return 0;
    case MUSTER__WORKER__STATE__stopping:
        *ret = WORKER_STOPPING;
        return 0;
    case MUSTER__WORKER__STATE__exited:
        *ret = WORKER_EXITED;
        return 0;
    case MUSTER__WORKER__STATE__running: /* reported about workers, never by their agents */
    case MUSTER__WORKER__STATE__unknown:
    case _MUSTER__WORKER__STATE_IS_INT_SIZE:
        break;
    }
    return error_set(err, E_INVALID_ARGUMENT, "unknown worker state %d", (int)state);
}

static const struct exit_info *intake_exit(const Muster__Exit *from, struct arena *arena)
{
    struct exit_info *ret = arena_zalloc(arena, sizeof(*ret));
    if (!ret || !from)
        return ret;
    ret->code = from->code;
    ret->signal = from->signal;
    ret->oom = from->oom;
    ret->lost = from->lost;
    ret->wall_ms = from->wall_ms;
    (void)str_copy(ret->text, sizeof(ret->text), from->text);
    (void)str_copy(ret->last_output, sizeof(ret->last_output), from->last_output);
    return ret;
}

static const struct collective_wait *intake_wait(const Muster__Wait *from, struct arena *arena)
{
    struct collective_wait *ret = arena_zalloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    (void)str_copy(ret->communicator, sizeof(ret->communicator), from->communicator);
    (void)str_copy(ret->operation, sizeof(ret->operation), from->operation);
    ret->sequence = from->sequence;
    ret->bytes = from->bytes > INT64_MAX ? INT64_MAX : (int64_t)from->bytes;
    ret->waited_ms = from->waited_ms;
    ret->ranks_named =
        from->n_ranks < COLLECTIVE_RANKS_MAX ? (int)from->n_ranks : COLLECTIVE_RANKS_MAX;
    if (ret->ranks_named > 0)
        memcpy(ret->ranks, from->ranks, sizeof(ret->ranks[0]) * (size_t)ret->ranks_named);
    bool more = from->ranks_count > (uint32_t)ret->ranks_named && from->ranks_count <= INT32_MAX;
    ret->ranks_count = more ? (int)from->ranks_count : ret->ranks_named;
    return ret;
}

/* Agents refuse a larger step; an agent of an older version does not. */
static uint64_t possible_step(uint64_t step)
{
    return step < STEP_MAX ? step : STEP_MAX;
}

static int intake_report(const Muster__WorkerStatus *from, struct arena *arena,
                         struct worker_report *ret, struct error *err)
{
    if (strlen(from->job) > JOB_ID_MAX || strlen(from->endpoint) > ENDPOINT_MAX ||
        from->n_lost_ranks > INTAKE_LOST_RANKS_MAX || from->n_stuck_pids > INTAKE_STUCK_PIDS_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "report of worker %.40s/%llu is out of bounds",
                         from->job, (unsigned long long)from->uid);
    *ret = (struct worker_report){
        .job = from->job,
        .uid = from->uid,
        .pid = from->pid,
        .generation = from->generation,
        .joining = from->joining,
        .step = possible_step(from->step),
        .total_steps = possible_step(from->total_steps),
        .broken = from->broken,
        .endpoint = from->endpoint,
        .aware = from->aware,
        .lost_ranks = from->lost_ranks,
        .lost_ranks_count = (int)from->n_lost_ranks,
        .start_error = from->start_error,
        .stuck_pids = from->stuck_pids,
        .stuck_count = (int)from->n_stuck_pids,
        .loss = NAN,
        .tokens_per_second = NAN,
    };
    if (from->wait && from->wait->waited_ms && !(ret->wait = intake_wait(from->wait, arena)))
        return error_set(err, E_RESOURCE_EXHAUSTED, "report is too large");
    int rc = worker_state(from->state, &ret->state, err);
    bool ended = ret->state == WORKER_EXITED || (ret->stuck_count > 0 && from->exit);
    if (rc < 0 || !ended)
        return rc;
    ret->exit = intake_exit(from->exit, arena);
    return ret->exit ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "report is too large");
}

static void put_metric(struct worker_report *report, const char *name, double value)
{
    if (strcmp(name, "loss") == 0)
        report->loss = value;
    else if (strcmp(name, "tokens_per_second") == 0)
        report->tokens_per_second = value;
    else if (strcmp(name, "profile/checkpoint") == 0 && value >= 0)
        report->saved_s += (value - report->saved_s) / ++report->saved_samples;
}

/* Samples name a job, not a worker: add them to its first worker here. */
static void put_metrics(const struct intake_workers *from, struct worker_report *reports, int count)
{
    for (size_t i = 0; i < from->metrics_count; i++) {
        const Muster__MetricSample *sample = from->metrics[i];
        int j = 0;
        while (j < count && strcmp(reports[j].job, sample->job) != 0)
            j++;
        if (j < count)
            put_metric(&reports[j], sample->name, sample->value);
    }
}

int intake_reports(const struct intake_workers *from, struct arena *arena,
                   struct worker_report **ret, int *ret_count, struct error *err)
{
    if (from->workers_count > INTAKE_WORKERS_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "more than %d workers in one report",
                         INTAKE_WORKERS_MAX);
    struct worker_report *reports = arena_array(arena, from->workers_count, sizeof(*reports));
    if (!reports)
        return error_set(err, E_RESOURCE_EXHAUSTED, "report is too large");
    for (size_t i = 0; i < from->workers_count; i++) {
        int rc = intake_report(from->workers[i], arena, &reports[i], err);
        if (rc < 0)
            return rc;
    }
    put_metrics(from, reports, (int)from->workers_count);
    *ret = reports;
    *ret_count = (int)from->workers_count;
    return 0;
}

int intake_checkpoint(const Muster__Checkpoint *message, struct checkpoint *ret, struct error *err)
{
    if (!message)
        return error_set(err, E_INVALID_ARGUMENT, "checkpoint: missing");
    if (!*message->path || str_copy(ret->path, sizeof(ret->path), message->path) < 0)
        return too_much("checkpoint.path", "empty or too long", err);
    if (message->size_bytes > INT64_MAX || message->world > INT32_MAX || message->step > STEP_MAX)
        return too_much("checkpoint", "out of range", err);
    ret->step = message->step;
    ret->generation = message->generation;
    ret->wall_ms = message->wall_ms;
    ret->size_bytes = (int64_t)message->size_bytes;
    ret->world = (int)message->world;
    return 0;
}
