/* What breaks, and when. Each kind has its own chance per seed, so that some worlds are calm and
 * some are not. After the given time all is mended and nothing breaks any more. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/query.h"
#include "coordinator/store/store_memory.h"
#include "tests/sim/stage.h"

enum fault {
    FAULT_COORDINATOR,
    FAULT_AGENT,
    FAULT_MACHINE,
    FAULT_CUT,
    FAULT_KILL,
    FAULT_STORE,
    FAULT_HANG,
    FAULT_STALL,
    FAULT_CLOCK,
    FAULT_DISK,
    FAULT_COUNT,
};

enum {
    GAP_MAX_MS = 8000,
    DOWN_MAX_MS = 8000,
    CUT_MAX_MS = 6000,
    STORE_FAILURES_MAX = 3,
    STALL_MAX_MS = 5000,
    DISK_MAX_MS = 5000,
    CLOCK_JUMP_MAX_MS = 3600 * 1000,
    STUCK_MIN_MS = 4000,
    STUCK_STEP_MS = 2000,
};

struct faults {
    struct stage *stage;
    struct rng rng;
    int64_t until_ms;
    int weight[FAULT_COUNT];
};

static void start_coordinator_due(struct world *world, void *arg)
{
    (void)arg;
    if (!world->stage->coordinator)
        stage_start_coordinator(world->stage);
}

static void start_agent_due(struct world *world, void *arg)
{
    stage_start_agent(world->stage, arg);
}

static int64_t soon(struct faults *faults, int64_t max_ms)
{
    /* Often short, within a lease; sometimes long. */
    int64_t span = rng_chance(&faults->rng, 0.5) ? max_ms / 8 : max_ms;
    return faults->stage->world->now_ms + rng_between(&faults->rng, 1, span);
}

static struct sim_node *any_node(struct faults *faults)
{
    return &faults->stage->nodes[rng_below(&faults->rng, (uint64_t)faults->stage->nodes_count)];
}

struct cut {
    int a, b;
};

static void mend_due(struct world *world, void *arg)
{
    struct cut *cut = arg;
    world->cut[cut->a][cut->b] = world->cut[cut->b][cut->a] = false;
    world_note(world, "machines %d and %d see each other again", cut->a, cut->b);
    free(cut);
}

static void cut_machines(struct faults *faults)
{
    struct stage *stage = faults->stage;
    struct world *world = stage->world;
    struct cut *cut = calloc(1, sizeof(*cut));
    insist(cut);
    cut->a = (int)rng_between(&faults->rng, 0, stage->nodes_count);
    cut->b = (int)rng_between(&faults->rng, 1, stage->nodes_count);
    if (cut->a == cut->b) {
        free(cut);
        return;
    }
    world->cut[cut->a][cut->b] = true;
    if (rng_chance(&faults->rng, 0.7)) /* else one way only */
        world->cut[cut->b][cut->a] = true;
    world_note(world, "machines %d and %d are cut", cut->a, cut->b);
    stage->cuts++;
    world_at(world, soon(faults, CUT_MAX_MS), mend_due, cut);
}

static void kill_process(struct faults *faults)
{
    struct sim_node *node = any_node(faults);
    for (int i = node->processes_count - 1; i >= 0; i--) {
        if (!process_lives(node->processes[i]) || rng_chance(&faults->rng, 0.3))
            continue;
        process_signal(node->processes[i], SIGKILL);
        faults->stage->kills++;
        return;
    }
}

static bool one_hangs_already(const struct stage *stage, const char *job)
{
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = 0; i < stage->nodes[n].processes_count; i++) {
            const struct process *process = stage->nodes[n].processes[i];
            if (process->hung && process_lives(process) && strcmp(process->key.job, job) == 0)
                return true;
        }
    return false;
}

/* One of a gang that trains stands still for ever: SIGSTOP, a lost disk, a deadlock. Its peers
 * tell; of a gang that hangs as a whole nobody could. */
static void hang_process(struct faults *faults)
{
    struct sim_node *node = any_node(faults);
    for (int i = node->processes_count - 1; i >= 0; i--) {
        struct process *process = node->processes[i];
        if (!process_lives(process) || process->state != PROCESS_TRAINING ||
            process->world_size < 2 || one_hangs_already(faults->stage, process->key.job))
            continue;
        process->hung = true;
        if (process->pid % 3 == 0) /* of a driver: no chance of its own, so that worlds stay */
            process->stuck_ms = STUCK_MIN_MS + (int)(process->pid % 13) * STUCK_STEP_MS;
        process->program->stalled_until_ms = INT64_MAX - 1;
        world_note(process->world, "%s/%llu on %s hangs", process->key.job,
                   (unsigned long long)process->key.uid, node->name);
        faults->stage->hangs++;
        return;
    }
}

/* Its disk is slow, or its machine swaps: the program stands still for a while. */
static void stall_program(struct faults *faults)
{
    struct stage *stage = faults->stage;
    struct sim_node *node = any_node(faults);
    struct program *program = rng_chance(&faults->rng, 0.5)
                                  ? stage->coordinator ? stage->coordinator_program : NULL
                              : node->agent ? node->agent_program
                                            : NULL;
    if (!program || !program->alive)
        return;
    program->stalled_until_ms = soon(faults, STALL_MAX_MS);
    world_note(stage->world, "%s stands still for %lld ms", program->name,
               (long long)(program->stalled_until_ms - stage->world->now_ms));
    stage->stalls++;
}

static void jump_clock(struct faults *faults)
{
    struct stage *stage = faults->stage;
    int machine = (int)rng_between(&faults->rng, 0, stage->nodes_count);
    int64_t by_ms = rng_between(&faults->rng, -CLOCK_JUMP_MAX_MS, CLOCK_JUMP_MAX_MS);
    if (rng_chance(&faults->rng, 0.5))
        by_ms /= 1000;
    stage->world->wall_skew_ms[machine] += by_ms;
    world_note(stage->world, "the clock of machine %d jumps by %lld ms", machine, (long long)by_ms);
    stage->clock_jumps++;
}

static void strike(struct faults *faults, enum fault fault)
{
    struct stage *stage = faults->stage;
    struct world *world = stage->world;
    struct sim_node *node = any_node(faults);
    switch (fault) {
    case FAULT_COORDINATOR:
        stage_crash_coordinator(stage);
        world_at(world, soon(faults, DOWN_MAX_MS), start_coordinator_due, NULL);
        break;
    case FAULT_AGENT:
    case FAULT_MACHINE:
        stage_crash_agent(stage, node, fault == FAULT_MACHINE);
        world_at(world, soon(faults, DOWN_MAX_MS), start_agent_due, node);
        break;
    case FAULT_CUT:
        cut_machines(faults);
        break;
    case FAULT_KILL:
        kill_process(faults);
        break;
    case FAULT_STORE:
        world_note(world, "the disk is full for a while");
        if (stage->store)
            store_memory_fail_commits(stage->store,
                                      (int)rng_between(&faults->rng, 1, STORE_FAILURES_MAX),
                                      E_RESOURCE_EXHAUSTED);
        stage->store_failures++;
        break;
    case FAULT_HANG:
        hang_process(faults);
        break;
    case FAULT_STALL:
        stall_program(faults);
        break;
    case FAULT_CLOCK:
        jump_clock(faults);
        break;
    case FAULT_DISK:
        world->disk_fails_until_ms[node->machine] = soon(faults, DISK_MAX_MS);
        if (rng_chance(&faults->rng, 0.3))
            world->disk_fails_until_ms[0] = soon(faults, DISK_MAX_MS);
        stage->disk_failures++;
        break;
    case FAULT_COUNT:
        break;
    }
}

static void doom_due(struct world *world, void *arg)
{
    (void)arg;
    stage_crash_agent(world->stage, world->stage->doomed, true);
}

static enum fault draw(struct faults *faults)
{
    int total = 0;
    for (int i = 0; i < FAULT_COUNT; i++)
        total += faults->weight[i];
    int at = total ? (int)rng_below(&faults->rng, (uint64_t)total) : 0;
    for (int i = 0; i < FAULT_COUNT && total; i++) {
        if (at < faults->weight[i])
            return (enum fault)i;
        at -= faults->weight[i];
    }
    return FAULT_COUNT;
}

static void fault_due(struct world *world, void *arg)
{
    struct faults *faults = arg;
    if (world->now_ms >= faults->until_ms)
        return;
    strike(faults, draw(faults));
    world_at(world, world->now_ms + rng_between(&faults->rng, 1, GAP_MAX_MS), fault_due, faults);
}

static struct process *process_of(struct stage *stage, const struct job *job,
                                  const struct worker *worker)
{
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = 0; i < stage->nodes[n].processes_count; i++) {
            struct process *process = stage->nodes[n].processes[i];
            if (process->key.uid == worker->uid && strcmp(process->key.job, job->id) == 0)
                return process;
        }
    return NULL;
}

static void kill_due(struct world *world, void *arg)
{
    struct process *process = arg; /* its node keeps it */
    if (!process_lives(process))
        return;
    process_signal(process, SIGKILL);
    world->stage->kills++;
}

void faults_strike_left(struct stage *stage, const struct cluster *cluster)
{
    for (const struct job *job = cluster_first_begun_job(cluster); job && !stage->calm;
         job = cluster_next_begun_job(cluster, job)) {
        int rank = 0;
        const struct worker *left = job_is_moving(job) ? job_next_left(job, &rank) : NULL;
        struct process *process = left ? process_of(stage, job, left) : NULL;
        if (process && process_lives(process) && process->pid % 3 == 0)
            world_at(stage->world, stage->world->now_ms + 1, kill_due, process);
    }
}

/* All is well again; agents that were fenced away come back as their service manager would have. */
static void calm_due(struct world *world, void *arg)
{
    enum { AGAIN_MS = 10000 };
    struct stage *stage = world->stage;
    (void)arg;
    if (!stage->calm)
        world_note(world, "nothing breaks from now on");
    stage->calm = true;
    world->loss = world->duplicate = world->reorder = 0;
    memset(world->disk_fails_until_ms, 0, sizeof(world->disk_fails_until_ms));
    for (int a = 0; a < SIM_MACHINES_MAX; a++)
        for (int b = 0; b < SIM_MACHINES_MAX; b++)
            world->cut[a][b] = false;
    if (stage->store)
        store_memory_fail_commits(stage->store, 0, 0);
    start_coordinator_due(world, NULL);
    for (int i = 0; i < stage->nodes_count; i++)
        stage_start_agent(stage, &stage->nodes[i]);
    world_at(world, world->now_ms + AGAIN_MS, calm_due, NULL);
}

void faults_init(struct stage *stage, int64_t until_ms)
{
    struct world *world = stage->world;
    struct faults *faults = calloc(1, sizeof(*faults)); /* lives as long as the world's process */
    insist(faults);
    faults->stage = stage;
    faults->until_ms = until_ms;
    rng_fork(&world->rng, &faults->rng);
    for (int i = 0; i < FAULT_COUNT; i++)
        faults->weight[i] = (int)rng_below(&faults->rng, 4);
    world->loss = rng_chance(&faults->rng, 0.5) ? rng_double(&faults->rng) * 0.1 : 0;
    world->duplicate = rng_chance(&faults->rng, 0.5) ? rng_double(&faults->rng) * 0.1 : 0;
    world->delay_max_ms = (int)rng_between(&faults->rng, 1, 100);
    world->reorder = rng_chance(&faults->rng, 0.3) ? rng_double(&faults->rng) * 0.05 : 0;
    world_at(world, world->now_ms + 1, fault_due, faults);
    if (stage->doomed)
        world_at(world, world->now_ms + rng_between(&faults->rng, 1, until_ms - world->now_ms),
                 doom_due, NULL);
    world_at(world, until_ms, calm_due, NULL);
}
