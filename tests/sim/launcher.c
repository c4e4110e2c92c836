/* struct launcher over scripted processes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "tests/sim/process.h"
#include "tests/sim/session.h"
#include "tests/sim/stage.h"
#include "tests/sim/training.h"

enum { START_MAX_MS = 20, REAP_MAX_MS = 10, FIRST_PID = 1000, STUCK_AFTER_MS = 3000 };

bool process_lives(const struct process *process)
{
    return process->state != PROCESS_EXITED;
}

static struct process *find(struct sim_node *node, const struct worker_key *key)
{
    for (int i = 0; i < node->processes_count; i++)
        if (node->processes[i]->key.uid == key->uid &&
            strcmp(node->processes[i]->key.job, key->job) == 0)
            return node->processes[i];
    return NULL;
}

static struct process *find_kept(struct sim_node *node, const struct worker_key *key)
{
    struct process *process = find(node, key);
    return process && !process->forgotten ? process : NULL;
}

static void tell_started(void *arg)
{
    struct process *process = arg;
    struct sim_node *node = process->node;
    if (node->open)
        node->events.started(node->events.arg, &process->key, process->pid);
}

static void tell_exited(void *arg)
{
    struct process *process = arg;
    struct sim_node *node = process->node;
    if (node->open)
        node->events.exited(node->events.arg, &process->key, &process->exit);
}

static void exit_due(struct world *world, void *arg)
{
    struct process *process = arg;
    (void)world;
    if (process->node->open)
        program_post(process->node->agent_program, tell_exited, process);
}

void process_die(struct process *process, const struct worker_exit *exit)
{
    struct world *world = process->world;
    if (!process_lives(process))
        return;
    process->state = PROCESS_EXITED;
    process->exit = *exit;
    process->exit.wall_ms = world->now_ms + 7 * process->node->machine;
    (void)str_copy(process->exit.text, sizeof(process->exit.text),
                   exit->lost     ? "nobody saw it end"
                   : exit->signal ? "killed"
                                  : "exited");
    world_note(world, "%s/%llu on %s ends: code %d signal %d step %llu", process->key.job,
               (unsigned long long)process->key.uid, process->node->name, exit->code, exit->signal,
               (unsigned long long)process->step);
    session_close(process);
    world_at(world, world->now_ms + rng_between(&world->rng, 0, REAP_MAX_MS), exit_due, process);
}

static void tell_stuck(void *arg)
{
    struct process *process = arg;
    struct sim_node *node = process->node;
    struct worker_stuck stuck = {
        .pids = {process->pid}, .count = 1, .wall_ms = process->world->now_ms};
    if (!node->open || !process_lives(process))
        return;
    process->told_stuck = true;
    node->events.stuck(node->events.arg, &process->key, &stuck);
}

static void stuck_due(struct world *world, void *arg)
{
    struct process *process = arg;
    (void)world;
    if (process->node->open)
        program_post(process->node->agent_program, tell_stuck, process);
}

static void unstuck_due(struct world *world, void *arg)
{
    (void)world;
    process_die(arg, &(struct worker_exit){.signal = SIGKILL});
}

/* A driver holds it: it ends when the driver lets it go. */
static void stick(struct process *process)
{
    struct world *world = process->world;
    if (process->killed)
        return;
    process->killed = true;
    world_note(world, "%s/%llu on %s cannot be killed for %d ms", process->key.job,
               (unsigned long long)process->key.uid, process->node->name, process->stuck_ms);
    world_at(world, world->now_ms + STUCK_AFTER_MS, stuck_due, process);
    world_at(world, world->now_ms + process->stuck_ms, unstuck_due, process);
}

void process_signal(struct process *process, int signal)
{
    if (!process_lives(process))
        return;
    if (signal == SIGKILL && process->stuck_ms) {
        stick(process);
        return;
    }
    if (signal == SIGTERM && (process->script.ignores_term || process->hung))
        return;
    if (signal == SIGTERM && training_stop(process))
        return;
    process_die(process, &(struct worker_exit){.signal = signal});
}

void sim_node_lose_processes(struct sim_node *node)
{
    for (int i = 0; i < node->processes_count; i++)
        process_die(node->processes[i], &(struct worker_exit){.lost = true});
}

static int launcher_open(void *self, const struct launcher_events *events, struct error *err)
{
    struct sim_node *node = self;
    (void)err;
    node->events = *events;
    node->open = true;
    for (int i = 0; i < node->processes_count; i++) {
        const struct process *process = node->processes[i];
        if (process->forgotten)
            continue;
        struct worker_found found = {.key = process->key,
                                     .start_generation = process->start_generation,
                                     .rank = process->rank,
                                     .pid = process->pid,
                                     .exited = !process_lives(process),
                                     .exit = process->exit,
                                     .memory = process->memory};
        events->found(events->arg, &found);
        if (process->told_stuck && process_lives(process)) /* its record is still there */
            world_at(node->world, node->world->now_ms, stuck_due, node->processes[i]);
    }
    return 0;
}

static void launcher_close(void *self)
{
    ((struct sim_node *)self)->open = false;
}

static void started_due(struct world *world, void *arg)
{
    struct process *process = arg;
    (void)world;
    if (process_lives(process))
        session_start(process);
    if (process->node->open)
        program_post(process->node->agent_program, tell_started, process);
}

static int launcher_start(void *self, const struct launch *launch, struct error *err)
{
    struct sim_node *node = self;
    struct world *world = node->world;
    if (find(node, &launch->key))
        return error_set(err, E_ALREADY_EXISTS, "started before");
    stage_check_start(world->stage, node, &launch->key);
    insist(node->processes_count < SIM_PROCESSES_MAX);
    struct process *process = calloc(1, sizeof(*process));
    insist(process);
    process->world = world;
    process->node = node;
    process->key = launch->key;
    process->pid = FIRST_PID + node->next_pid++;
    process->start_generation = launch->generation;
    process->rank = launch->rank;
    session_read_launch(process, launch);
    node->processes[node->processes_count++] = process;
    world_note(world, "%s/%llu starts on %s", process->key.job,
               (unsigned long long)process->key.uid, node->name);
    world_at(world, world->now_ms + rng_between(&world->rng, 0, START_MAX_MS), started_due,
             process);
    return 0;
}

static void launcher_terminate(void *self, const struct worker_key *key)
{
    struct process *process = find_kept(self, key);
    if (process)
        process_signal(process, SIGTERM);
}

/* Its program takes it, and goes on. */
static void launcher_signal_early(void *self, const struct worker_key *key)
{
    (void)self, (void)key;
}

static void launcher_kill(void *self, const struct worker_key *key)
{
    struct process *process = find_kept(self, key);
    if (process)
        process_signal(process, SIGKILL);
}

static void launcher_remember(void *self, const struct worker_key *key,
                              const struct worker_memory *memory)
{
    struct process *process = find_kept(self, key);
    if (process)
        process->memory = *memory;
}

static int launcher_read_output(void *self, const struct worker_key *key, size_t max_bytes,
                                struct output_batch *ret, struct error *err)
{
    const struct process *process = find_kept(self, key);
    (void)max_bytes;
    if (!process)
        return error_set(err, E_NOT_FOUND, "no such worker");
    *ret = (struct output_batch){.complete = !process_lives(process),
                                 .generation = process->start_generation,
                                 .rank = process->rank};
    return 0;
}

static void launcher_acknowledge(void *self, const struct worker_key *key, uint64_t next)
{
    (void)self, (void)key, (void)next;
}

static void launcher_forget(void *self, const struct worker_key *key)
{
    struct process *process = find_kept(self, key);
    if (!process)
        return;
    insist(!process_lives(process));
    process->forgotten = true;
}

void sim_launcher_init(struct sim_node *node)
{
    node->launcher = (struct launcher){.self = node,
                                       .open = launcher_open,
                                       .close = launcher_close,
                                       .start = launcher_start,
                                       .terminate = launcher_terminate,
                                       .signal_early = launcher_signal_early,
                                       .kill = launcher_kill,
                                       .remember = launcher_remember,
                                       .read_output = launcher_read_output,
                                       .acknowledge = launcher_acknowledge,
                                       .forget = launcher_forget};
}
