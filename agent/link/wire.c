#include "agent/link/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/rpc/message.h"
#include "common/rpc/training.h"

int wire_key(const char *job, uint64_t uid, struct worker_key *ret, struct error *err)
{
    struct worker_key key = {.uid = uid};
    if (!job[0] || str_copy(key.job, sizeof(key.job), job)) {
        error_field(err, "job");
        return error_set(err, E_INVALID_ARGUMENT, "\"%.40s\" is no job id", job);
    }
    *ret = key;
    return 0;
}

static bool fill_training(struct assignment *a, const Muster__Training *training)
{
    struct training_setting *list;
    int count;
    if (training_list(training, &a->arena, &list, &count, NULL))
        return false;
    struct named_value *settings = arena_array(&a->arena, (size_t)count + 1, sizeof(*settings));
    if (!settings)
        return false;
    for (int i = 0; i < count; i++)
        settings[i] = (struct named_value){.name = list[i].name, .value = list[i].value};
    a->training = settings;
    a->training_count = count;
    return true;
}

/* Copies; a failure leaves "" and is noticed by the flag. */
static const char *copy(struct assignment *a, const char *text, bool *failed)
{
    const char *copied = arena_strdup(&a->arena, text ? text : "");
    if (!copied)
        *failed = true;
    return copied ? copied : "";
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named_value *)a)->name, ((const struct named_value *)b)->name);
}

static void fill_command(struct assignment *a, const Muster__JobSpec *spec, bool *failed)
{
    const char **command = arena_array(&a->arena, spec->n_command + 1, sizeof(*command));
    struct named_value *env = arena_array(&a->arena, spec->n_env + 1, sizeof(*env));
    if (!command || !env) {
        *failed = true;
        return;
    }
    for (size_t i = 0; i < spec->n_command; i++)
        command[i] = copy(a, spec->command[i], failed);
    for (size_t i = 0; i < spec->n_env; i++) {
        env[i].name = copy(a, spec->env[i]->key, failed);
        env[i].value = copy(a, spec->env[i]->value, failed);
    }
    qsort(env, spec->n_env, sizeof(*env), by_name);
    a->command = command;
    a->env = env;
    a->env_count = (int)spec->n_env;
}

/* The choices of `stop_signal` and `signal` in common/settings/job_field_list.h; 0 = none of them.
 * The name ends at '@'. */
static int signal_number(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"TERM", SIGTERM}, {"INT", SIGINT},   {"HUP", SIGHUP},
                   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
    size_t size = strcspn(name, "@");
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (strlen(signals[i].name) == size && memcmp(signals[i].name, name, size) == 0)
            return signals[i].number;
    return 0;
}

static void fill_spec(struct assignment *a, const Muster__JobSpec *spec, bool *failed)
{
    a->job_name = copy(a, spec->name, failed);
    a->tenant = copy(a, spec->tenant[0] ? spec->tenant : "default", failed);
    a->workdir = copy(a, spec->workdir, failed);
    a->slots = 1;
    a->cpus = 1;
    if (spec->resources) {
        a->slots = spec->resources->slots ? spec->resources->slots : 1;
        a->cpus = spec->resources->cpus > 0 ? spec->resources->cpus : 1;
        if (spec->resources->memory[0])
            (void)parse_bytes(spec->resources->memory, &a->memory_bytes, NULL);
    }
    if (spec->restart)
        a->restarts_max = spec->restart->max;
    if (spec->checkpoint) {
        a->checkpoint_dir = copy(a, spec->checkpoint->dir, failed);
        a->checkpoint_every = copy(a, spec->checkpoint->every, failed);
        a->checkpoint_keep = spec->checkpoint->keep;
    }
    a->stop_signal = signal_number(spec->stop_signal);
    if (!a->stop_signal)
        a->stop_signal = SIGTERM;
    a->early_signal = signal_number(spec->signal);
    fill_command(a, spec, failed);
    if (!fill_training(a, spec->training))
        *failed = true;
}

static int by_variable(const void *a, const void *b)
{
    return strcmp(((const struct launch_secret *)a)->name, ((const struct launch_secret *)b)->name);
}

static void fill_secrets(struct assignment *a, const Muster__JobShared *shared, bool *failed)
{
    struct launch_secret *secrets = arena_array(&a->arena, shared->n_secrets + 1, sizeof(*secrets));
    a->secrets_error = copy(a, shared->secrets_error, failed);
    a->secrets_later = shared->secrets_later;
    if (!secrets) {
        *failed = true;
        return;
    }
    for (size_t i = 0; i < shared->n_secrets; i++) {
        secrets[i].name = copy(a, shared->secrets[i]->variable, failed);
        secrets[i].value = copy(a, shared->secrets[i]->value, failed);
    }
    qsort(secrets, shared->n_secrets, sizeof(*secrets), by_variable);
    if (*failed)
        return;
    a->secrets = secrets;
    a->secrets_count = (int)shared->n_secrets;
}

static void fill_members(struct assignment *a, const Muster__Membership *membership, bool *failed)
{
    if (!membership || membership->generation != a->generation || !membership->n_members)
        return;
    struct membership_member *members =
        arena_array(&a->arena, membership->n_members, sizeof(*members));
    if (!members) {
        *failed = true;
        return;
    }
    for (size_t i = 0; i < membership->n_members; i++)
        members[i] = (struct membership_member){
            .rank = membership->members[i]->rank,
            .endpoint = copy(a, membership->members[i]->endpoint, failed),
            .host = membership->members[i]->host,
            .node = copy(a, membership->members[i]->node, failed)};
    a->members = members;
    a->members_count = (int)membership->n_members;
}

static int fill_assignment(struct assignment *a, const Muster__Assignment *m,
                           const Muster__JobShared *shared, struct error *err)
{
    bool failed = false;
    if (m->master_port > UINT16_MAX || m->secret.len > sizeof(a->secret) ||
        strlen(m->token) > AGENT_TOKEN_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "assignment of %s/%" PRIu64 " is malformed",
                         m->job, m->uid);
    a->stop = m->stop;
    a->reform = m->reform;
    a->grace_ms = m->grace_ms;
    a->leave_ms = m->leave_ms;
    a->generation = m->generation;
    a->rank = m->rank;
    a->world = m->world;
    a->local_rank = m->local_rank;
    a->local_world = m->local_world;
    a->node_rank = m->node_rank;
    a->node_count = m->node_count;
    a->restarts = m->restarts;
    a->stacks_wall_ms = m->stacks_wall_ms;
    a->signal_wall_ms = m->signal_wall_ms;
    a->slot = m->slot;
    a->master_addr = copy(a, m->master_addr, &failed);
    a->master_port = (uint16_t)m->master_port;
    a->token = copy(a, m->token, &failed);
    a->resume_from = copy(a, m->resume_from, &failed);
    a->resume_step = m->resume_step;
    a->stop_reason = copy(a, m->stop_reason, &failed);
    if (m->secret.len)
        memcpy(a->secret, m->secret.data, m->secret.len);
    a->secret_bytes = (int)m->secret.len;
    fill_spec(a, shared->spec, &failed);
    fill_secrets(a, shared, &failed);
    fill_members(a, shared->membership, &failed);
    return failed ? error_set(err, E_RESOURCE_EXHAUSTED, "an assignment is too large") : 0;
}

int wire_assignment(const Muster__Assignment *message, const Muster__JobShared *shared,
                    struct assignment **ret, struct error *err)
{
    struct assignment *a = assignment_new();
    if (!a)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for an assignment");
    int rc = wire_key(message->job, message->uid, &a->key, err);
    if (!rc && (!shared || !shared->spec))
        rc = error_set(err, E_INVALID_ARGUMENT, "job %s was sent without its spec", a->key.job);
    if (!rc)
        rc = fill_assignment(a, message, shared, err);
    if (rc)
        assignment_release(a);
    else
        *ret = a;
    return rc;
}

static Muster__Worker__State wire_state(enum agent_worker_state state)
{
    switch (state) {
    case AGENT_WORKER_STARTING:
        return MUSTER__WORKER__STATE__starting;
    case AGENT_WORKER_JOINED:
        return MUSTER__WORKER__STATE__joined;
    case AGENT_WORKER_STOPPING:
        return MUSTER__WORKER__STATE__stopping;
    case AGENT_WORKER_EXITED:
        return MUSTER__WORKER__STATE__exited;
    }
    return MUSTER__WORKER__STATE__unknown;
}

static Muster__Exit *wire_exit(const struct worker_exit *exit, bool last_output,
                               struct arena *arena)
{
    Muster__Exit *message = arena_alloc(arena, sizeof(*message));
    if (!message)
        return NULL;
    muster__exit__init(message);
    message->code = exit->code;
    message->signal = exit->signal;
    message->oom = exit->oom;
    message->lost = exit->lost;
    message->text = rpc_text(exit->text);
    message->wall_ms = exit->wall_ms;
    if (last_output)
        message->last_output = rpc_text(exit->last_output);
    return message;
}

static Muster__Wait *wire_wait(const struct worker_wait *wait, struct arena *arena)
{
    Muster__Wait *message = arena_alloc(arena, sizeof(*message));
    if (!message)
        return NULL;
    muster__wait__init(message);
    message->communicator = rpc_text(wait->communicator);
    message->operation = rpc_text(wait->operation);
    message->sequence = wait->sequence;
    message->bytes = wait->bytes;
    message->waited_ms = wait->waited_ms;
    message->ranks = (uint32_t *)(uintptr_t)wait->ranks;
    message->n_ranks = (size_t)wait->ranks_named;
    message->ranks_count = (uint32_t)wait->ranks_count;
    return message;
}

static bool wire_worker(const struct agent_worker *w, bool last_output, struct arena *arena,
                        Muster__WorkerStatus *ret)
{
    muster__worker_status__init(ret);
    ret->job = rpc_text(w->key.job);
    ret->uid = w->key.uid;
    ret->state = w->waits ? MUSTER__WORKER__STATE__assigned : wire_state(w->state);
    ret->pid = w->pid;
    ret->generation = w->memory.generation;
    ret->joining = w->joining;
    if (w->joining)
        ret->endpoint = rpc_text(w->endpoint);
    ret->aware = w->memory.aware;
    ret->reports = w->reports;
    ret->busy = w->busy;
    ret->reports_dropped = w->reports_dropped;
    ret->step = w->memory.step;
    ret->total_steps = w->memory.total_steps;
    ret->broken = w->broken;
    if (w->broken) {
        ret->lost_ranks = (uint32_t *)(uintptr_t)w->lost_ranks;
        ret->n_lost_ranks = (size_t)w->lost_ranks_count;
    }
    ret->start_error = rpc_text(w->start_error);
    if (w->wait.waited_ms && !(ret->wait = wire_wait(&w->wait, arena)))
        return false;
    ret->stuck_pids = (int64_t *)(uintptr_t)w->stuck.pids;
    ret->n_stuck_pids = (size_t)w->stuck.count;
    bool stuck_end = w->stuck.count > 0 && w->stuck.ended;
    if (w->state == AGENT_WORKER_EXITED || stuck_end)
        ret->exit = wire_exit(stuck_end ? &w->stuck.exit : &w->exit, last_output, arena);
    return (w->state != AGENT_WORKER_EXITED && !stuck_end) || ret->exit;
}

int wire_workers(const struct agent_core *core, struct arena *arena, Muster__WorkerStatus ***ret,
                 size_t *ret_count)
{
    size_t count = 0, at = 0, outputs = 0;
    for (const struct agent_worker *w = agent_core_first(core); w; w = w->next)
        count++;
    Muster__WorkerStatus **pointers = arena_pointers(arena, count + 1);
    Muster__WorkerStatus *all = arena_array(arena, count + 1, sizeof(*all));
    if (!pointers || !all)
        return E_RESOURCE_EXHAUSTED;
    for (const struct agent_worker *w = agent_core_first(core); w; w = w->next, at++) {
        pointers[at] = &all[at];
        if (w->state == AGENT_WORKER_EXITED)
            outputs++;
        if (!wire_worker(w, outputs <= WIRE_LAST_OUTPUTS_MAX, arena, &all[at]))
            return E_RESOURCE_EXHAUSTED;
    }
    *ret = pointers;
    *ret_count = count;
    return 0;
}

Muster__Membership *wire_membership(const struct assignment *assignment, struct arena *arena)
{
    size_t count = (size_t)assignment->members_count;
    Muster__Membership *ret = arena_alloc(arena, sizeof(*ret));
    Muster__Member *all = arena_array(arena, count + 1, sizeof(*all));
    Muster__Member **pointers = arena_pointers(arena, count + 1);
    if (!count || !ret || !all || !pointers)
        return NULL;
    muster__membership__init(ret);
    ret->generation = assignment->generation;
    ret->members = pointers;
    ret->n_members = count;
    for (size_t i = 0; i < count; i++) {
        muster__member__init(&all[i]);
        all[i].rank = assignment->members[i].rank;
        all[i].endpoint = rpc_text(assignment->members[i].endpoint);
        all[i].host = assignment->members[i].host;
        all[i].node = rpc_text(assignment->members[i].node);
        pointers[i] = &all[i];
    }
    return ret;
}
