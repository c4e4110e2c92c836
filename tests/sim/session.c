#include "tests/sim/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "proto/worker.pb-c.h"
#include "tests/sim/stage.h"
#include "tests/sim/training.h"

enum {
    ASK_AGAIN_MS = 100,
    LONG_POLL_MS = 5000,
    CALL_MS = 3000,
};

static void tick(void *arg);
static void join(struct process *process);
static void watch(struct process *process);

static const char *find_env(const struct launch *launch, const char *name)
{
    size_t size = strlen(name);
    for (const char *const *e = launch->envp; *e; e++)
        if (strncmp(*e, name, size) == 0 && (*e)[size] == '=')
            return *e + size + 1;
    return "";
}

static void read_word(struct script *script, const char *word)
{
    char name[32];
    const char *equals = strchr(word, '=');
    if (!equals || (size_t)(equals - word) >= sizeof(name))
        return;
    memcpy(name, word, (size_t)(equals - word));
    name[equals - word] = 0;
    int value = (int)strtol(equals + 1, NULL, 10);
    if (strcmp(name, "aware") == 0)
        script->aware = value;
    else if (strcmp(name, "steps") == 0)
        script->steps = value;
    else if (strcmp(name, "step_ms") == 0)
        script->step_ms = value;
    else if (strcmp(name, "every") == 0)
        script->every = value;
    else if (strcmp(name, "start_ms") == 0)
        script->start_ms = value;
    else if (strcmp(name, "crash") == 0)
        script->crash_permille = value;
    else if (strcmp(name, "pause") == 0)
        script->pause_at = value;
    else if (strcmp(name, "bug") == 0)
        script->crash_always_at = value;
    else if (strcmp(name, "stubborn") == 0)
        script->ignores_term = value;
    else if (strcmp(name, "deaf") == 0)
        script->deaf_once = value;
}

void session_read_launch(struct process *process, const struct launch *launch)
{
    for (const char *const *word = launch->argv; *word; word++)
        read_word(&process->script, *word);
    (void)str_copy(process->hub_url, sizeof(process->hub_url),
                   find_env(launch, "MUSTER_WORKER_SOCKET"));
    (void)str_copy(process->token, sizeof(process->token), launch->token);
    (void)str_copy(process->folder, sizeof(process->folder),
                   find_env(launch, "MUSTER_CHECKPOINT_DIR"));
    process->world_size = (uint32_t)strtoul(find_env(launch, "WORLD_SIZE"), NULL, 10);
    (void)snprintf(process->endpoint, sizeof(process->endpoint), "sim://%s/%s/%llu",
                   process->node->name, process->key.job, (unsigned long long)process->key.uid);
}

static void close_program(struct process *process)
{
    rpc_client_free(process->hub);
    process->hub = NULL;
    program_end(process->program, false);
}

static void after_turn(struct program *program)
{
    if (program->end_after_turn)
        close_program(program->owner);
}

void session_close(struct process *process)
{
    if (!process->program || !process->program->alive)
        return;
    if (process->program->running)
        process->program->end_after_turn = true;
    else
        close_program(process);
}

void session_end(struct process *process, int code)
{
    process_die(process, &(struct worker_exit){.code = code});
}

void session_tick_in(struct process *process, int64_t ms)
{
    if (process_lives(process))
        loop_timer_set(process->program->loop, &process->timer,
                       loop_now_ms(process->program->loop) + ms, tick, process);
}

void session_call(struct process *process, const char *method, const void *request,
                  int64_t timeout_ms, rpc_done done)
{
    struct rpc_options options = {.timeout_ms = timeout_ms, .retry = true};
    struct error err = {0};
    if (rpc_client_call(process->hub, &muster__worker_hub__descriptor, method, request, &options,
                        done, process, &err) < 0)
        world_fail(process->world, "worker cannot call %s: %s", method, err.text);
}

/* Hello, Join */

static void hello_done(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct process *process = arg;
    if (!process_lives(process))
        return;
    if (err->code) {
        session_tick_in(process, ASK_AGAIN_MS);
        return;
    }
    process->generation = ((const Muster__WorkerHelloAnswer *)message)->generation;
    process->state = PROCESS_JOINING;
    join(process);
}

static void hello(struct process *process)
{
    Muster__WorkerHelloRequest request = MUSTER__WORKER_HELLO_REQUEST__INIT;
    request.job = process->key.job;
    request.uid = process->key.uid;
    request.pid = process->pid;
    session_call(process, "Hello", &request, CALL_MS, hello_done);
}

static struct process *find_member(struct process *process, const char *endpoint)
{
    struct stage *stage = process->world->stage;
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = 0; i < stage->nodes[n].processes_count; i++)
            if (strcmp(stage->nodes[n].processes[i]->endpoint, endpoint) == 0)
                return stage->nodes[n].processes[i];
    return NULL;
}

static uint64_t digest_of(const Muster__Membership *membership)
{
    uint64_t digest = membership->generation;
    for (size_t i = 0; i < membership->n_members; i++) {
        digest = digest * 31 + membership->members[i]->rank;
        for (const char *c = membership->members[i]->endpoint; *c; c++)
            digest = (digest ^ (unsigned char)*c) * UINT64_C(1099511628211);
    }
    return digest;
}

/* A membership is given out when everyone in it has asked to be. */
static void check_members(struct process *process, const Muster__Membership *membership)
{
    for (size_t i = 0; i < membership->n_members; i++) {
        const struct process *member = find_member(process, membership->members[i]->endpoint);
        if (!member || member->asked < membership->generation || membership->members[i]->rank != i)
            world_fail(process->world,
                       "%s: generation %llu was given out before rank %zu joined it",
                       process->key.job, (unsigned long long)membership->generation, i);
    }
}

/* Where a gang goes on: from its furthest survivor, else from the checkpoint it was told. */
static void find_base(struct process *process, const Muster__WorkerJoinAnswer *answer,
                      struct membership_seen *seen)
{
    bool survivor = false;
    uint64_t base = 0;
    for (size_t i = 0; i < answer->membership->n_members; i++) {
        const struct process *member =
            find_member(process, answer->membership->members[i]->endpoint);
        if (!member || !member->trained)
            continue;
        if (!survivor || member->step > base)
            base = member->step;
        survivor = true;
    }
    if (!survivor && answer->resume_from[0]) {
        const char *slash = strrchr(answer->resume_from, '/');
        base = strtoull(slash + 1, NULL, 10);
    }
    const struct sim_job *job = workload_job(process->world->stage, process->key.job);
    if (!survivor && job && base < job->acknowledged_step)
        world_fail(process->world, "%s starts again at step %llu, but step %llu was committed",
                   process->key.job, (unsigned long long)base,
                   (unsigned long long)job->acknowledged_step);
    seen->base_step = base;
    seen->has_base = true;
}

static void enter(struct process *process, const Muster__WorkerJoinAnswer *answer)
{
    struct stage *stage = process->world->stage;
    process->generation = answer->generation;
    process->rank = answer->rank;
    process->world_size = answer->world;
    if (answer->token[0]) {
        (void)str_copy(process->token, sizeof(process->token), answer->token);
        insist(rpc_client_set_token(process->hub, process->token, NULL) == 0);
    }
    if (answer->membership->n_members != answer->world ||
        answer->membership->generation != answer->generation)
        world_fail(process->world, "%s: membership of %zu for a world of %u", process->key.job,
                   answer->membership->n_members, answer->world);
    check_members(process, answer->membership);
    struct membership_seen *seen = stage_membership(stage, process->key.job, answer->generation,
                                                    digest_of(answer->membership));
    if (!seen->has_base)
        find_base(process, answer, seen);
    process->step = seen->base_step;
    process->state = PROCESS_TRAINING;
    process->trained = true;
    process->told_lost_ms = 0;
    process->stalled_since_ms = 0;
    world_note(process->world, "%s/%llu trains as rank %u of %u in generation %llu from step %llu",
               process->key.job, (unsigned long long)process->key.uid, process->rank,
               process->world_size, (unsigned long long)process->generation,
               (unsigned long long)process->step);
    stage_check_training(stage, process);
    if (!process->watching)
        watch(process);
    session_tick_in(process, process->script.step_ms);
}

static void join_done(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct process *process = arg;
    const Muster__WorkerJoinAnswer *answer = (const Muster__WorkerJoinAnswer *)message;
    process->joining = false;
    if (!process_lives(process) || process->state != PROCESS_JOINING)
        return;
    if (err->code) {
        session_tick_in(process, ASK_AGAIN_MS);
    } else if (answer->stop) {
        session_end(process, 0);
    } else if (answer->ready) {
        enter(process, answer);
    } else {
        if (answer->generation > process->generation)
            process->generation = answer->generation;
        session_tick_in(process, 1);
    }
}

static void join(struct process *process)
{
    Muster__WorkerJoinRequest request = MUSTER__WORKER_JOIN_REQUEST__INIT;
    if (process->joining)
        return;
    process->joining = true;
    process->asked = process->generation;
    request.job = process->key.job;
    request.uid = process->key.uid;
    request.generation = process->generation;
    request.endpoint = process->endpoint;
    session_call(process, "Join", &request, LONG_POLL_MS, join_done);
}

/* Watch */

static void watch_done(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct process *process = arg;
    const Muster__WorkerWatchAnswer *answer = (const Muster__WorkerWatchAnswer *)message;
    process->watching = false;
    if (!process_lives(process))
        return;
    if (!err->code && answer->stop) {
        if (!process->script.ignores_term && !training_stop(process))
            session_end(process, 0);
        return;
    }
    if (!err->code && answer->generation > process->generation) {
        process->generation = answer->generation;
        process->state = PROCESS_JOINING;
        join(process);
        return;
    }
    if (process->state == PROCESS_TRAINING)
        watch(process);
}

static void watch(struct process *process)
{
    Muster__WorkerWatchRequest request = MUSTER__WORKER_WATCH_REQUEST__INIT;
    process->watching = true;
    request.job = process->key.job;
    request.uid = process->key.uid;
    request.generation = process->generation;
    session_call(process, "Watch", &request, LONG_POLL_MS, watch_done);
}

static void tick(void *arg)
{
    struct process *process = arg;
    if (!process_lives(process))
        return;
    if (!process->script.aware) {
        training_step_unaware(process);
        return;
    }
    switch (process->state) {
    case PROCESS_HELLO:
        hello(process);
        break;
    case PROCESS_JOINING:
        join(process);
        break;
    case PROCESS_TRAINING:
        training_step(process);
        break;
    case PROCESS_EXITED:
        break;
    }
}

static void begin(void *arg)
{
    struct process *process = arg;
    bool deaf = process->script.deaf_once && process->key.uid == 1;
    if (!deaf)
        session_tick_in(process, process->script.start_ms);
}

void session_start(struct process *process)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s/%llu", process->key.job,
                   (unsigned long long)process->key.uid);
    process->program = program_start(process->world, name, process->node->machine);
    process->program->owner = process;
    process->program->after_turn = after_turn;
    if (process->script.aware)
        insist(rpc_client_new(&process->program->env, process->program->loop, process->hub_url,
                              process->token, &process->hub, NULL) == 0);
    program_post(process->program, begin, process);
}
