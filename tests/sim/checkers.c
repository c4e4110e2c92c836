/* What must hold whatever breaks. Each check names the rule it stands for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/query.h"
#include "coordinator/model/tenant.h"
#include "tests/sim/stage.h"

/* An acknowledged submit is never lost, an ended job never comes back, a committed checkpoint stays
 * (or a newer one does). */
static void check_promises(struct stage *stage, const struct cluster *cluster)
{
    for (int i = 0; i < stage->jobs_count; i++) {
        struct sim_job *mine = &stage->jobs[i];
        if (!mine->id[0] || mine->forgotten)
            continue;
        const struct job *job = cluster_job(cluster, mine->id);
        if (!job)
            world_fail(stage->world, "%s was acknowledged as %s and is lost", mine->name, mine->id);
        if (strcmp(job->spec->name, mine->name) != 0)
            world_fail(stage->world, "%s is %s now", mine->id, job->spec->name);
        const struct checkpoint *last = job_last_checkpoint(job);
        bool stays = last && (last->generation > mine->acknowledged_generation ||
                              (last->generation == mine->acknowledged_generation &&
                               last->step >= mine->acknowledged_step));
        if (mine->acknowledged_step && !stays)
            world_fail(stage->world, "%s committed step %llu, which is lost", mine->id,
                       (unsigned long long)mine->acknowledged_step);
        if (mine->ended[0] && strcmp(mine->ended, job_state_name(job->state)) != 0)
            world_fail(stage->world, "%s had %s and is %s now", mine->id, mine->ended,
                       job_state_name(job->state));
    }
}

/* One idempotency key makes one job, however often it was asked for. */
static void check_keys(struct stage *stage, const struct cluster *cluster)
{
    int made[SIM_JOBS_MAX] = {0};
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job))
        for (int i = 0; i < stage->jobs_count; i++)
            if (strcmp(job->spec->name, stage->jobs[i].name) == 0 && ++made[i] > 1)
                world_fail(stage->world, "%s was made twice, the second time as %s",
                           stage->jobs[i].name, job->id);
}

/* No checkpoint of a generation that is over, or is known to be broken, is taken: what is new this
 * turn is of the generation that trained when the turn began or ended. */
static void check_checkpoints(struct stage *stage, const struct cluster *cluster)
{
    for (int i = 0; i < stage->jobs_count; i++) {
        struct sim_job *mine = &stage->jobs[i];
        const struct job *job = mine->id[0] ? cluster_job(cluster, mine->id) : NULL;
        if (!job)
            continue;
        const struct checkpoint *last = job_last_checkpoint(job);
        bool news = last && (last->step != mine->checkpoint_step ||
                             last->generation != mine->checkpoint_generation);
        bool before = news && last->generation == mine->generation && !mine->broken;
        bool now = news && last->generation == job->current.generation &&
                   last->generation != mine->generation; /* joined and committed in one turn */
        if (news && !before && !now)
            world_fail(stage->world, "%s took a checkpoint of generation %llu in generation %llu",
                       job->id, (unsigned long long)last->generation,
                       (unsigned long long)job->current.generation);
        mine->checkpoint_step = last ? last->step : 0;
        mine->checkpoint_generation = last ? last->generation : 0;
        mine->generation = job->current.generation;
        bool ends = job->state == JOB_STOPPING || job->state == JOB_PREEMPTING ||
                    job->state == JOB_RESTARTING;
        mine->broken = job->current.broken && !ends; /* with no successor, its last one counts */
    }
}

/* Only what is stored is a promise: ends are remembered once the store has them, that is, when a
 * turn has ended and writes are not being refused. */
static void remember_ends(struct stage *stage, const struct cluster *cluster)
{
    if (!coordinator_ready(stage->coordinator, NULL))
        return;
    for (int i = 0; i < stage->jobs_count; i++) {
        struct sim_job *mine = &stage->jobs[i];
        const struct job *job = mine->id[0] ? cluster_job(cluster, mine->id) : NULL;
        if (!job || !job_state_ended(job->state) || mine->ended[0])
            continue;
        (void)str_copy(mine->ended, sizeof(mine->ended), job_state_name(job->state));
        world_note(stage->world, "%s %s: %s", mine->name, mine->ended, job->reason.text);
    }
}

static bool is_replaced(const struct job *job, const struct worker *worker)
{
    bool left = job_is_moving(job) && group_rank_of(&job->current, worker->uid) >= 0 &&
                group_rank_of(&job->forming, worker->uid) < 0;
    return worker_living(worker) && (left || worker->should_stop);
}

/* Slots of workers that were told to stop, or are to be once others can replace them: a gang that
 * moves off a drained node holds both places until they have. */
static int leaving_slots(const struct cluster *cluster, const struct tenant *tenant)
{
    int slots = 0;
    for (const struct job *job = cluster_first_active_job(cluster); job;
         job = cluster_next_active_job(cluster, job))
        for (int i = 0; job->tenant == tenant && i < job->workers_count; i++)
            if (is_replaced(job, &job->workers[i]))
                slots += job->spec->resources.slots;
    return slots;
}

/* Quotas hold: a tenant takes nothing beyond its limit. One that was lowered below what is used
 * ends nobody; gangs keep their size, replacing whoever dies. */
static void check_limits(struct stage *stage, const struct cluster *cluster)
{
    for (int i = 0; i < SIM_TENANTS_MAX; i++) {
        struct sim_tenant *mine = &stage->tenants[i];
        const struct tenant *tenant = cluster_tenant(cluster, mine->name);
        int used = tenant ? tenant->slots_used - leaving_slots(cluster, tenant) : 0;
        int limit = tenant ? tenant->limit_slots : 0;
        if (limit != mine->limit_seen || stage->looked_at != cluster)
            mine->most = used;
        mine->limit_seen = limit;
        if (limit > mine->most)
            mine->most = limit;
        if (limit && used > mine->most)
            world_fail(stage->world, "tenant %s uses %d slots, its limit is %d", mine->name, used,
                       limit);
    }
    stage->looked_at = cluster;
}

/* A machine that is down is known to be lost before long, whatever its peers said last. */
static void check_lost(struct stage *stage, const struct cluster *cluster)
{
    enum { NOTICE_MS = 30000 };
    int64_t now_ms = stage->world->now_ms;
    for (int i = 0; i < stage->nodes_count; i++) {
        const struct sim_node *mine = &stage->nodes[i];
        const struct node *node = cluster_node(cluster, mine->name);
        if (node && mine->down_since_ms && node->state != NODE_LOST &&
            now_ms - mine->down_since_ms > NOTICE_MS &&
            now_ms - stage->coordinator_since_ms > NOTICE_MS)
            world_fail(stage->world, "%s is down for %lld ms and is %s (%s)", mine->name,
                       (long long)(now_ms - mine->down_since_ms), node_state_name(node->state),
                       node->reason.text);
    }
}

/* A worker that counts as ended has ended: its slots go to others, its peers go on without it. Only
 * a node that is lost takes with it what lives on unseen; and one whose process cannot be killed
 * takes no work. */
static void check_end(struct stage *stage, const struct node *node, const struct job *job,
                      struct process *process)
{
    const struct worker *worker = job_worker(job, process->key.uid);
    if (worker && worker->state != WORKER_EXITED)
        process->counted = true;
    if (node->state == NODE_LOST || node->state == NODE_JOINING)
        process->given_up = true;
    if (process->told_stuck && node->state != NODE_READY)
        return;
    if (worker && worker->state == WORKER_EXITED && process->counted && !process->given_up)
        world_fail(stage->world, "%s/%llu lives on %s and counts as ended (%s)", job->id,
                   (unsigned long long)worker->uid, node->name, worker->exit.text);
}

static void check_ends(struct stage *stage, const struct cluster *cluster)
{
    for (int n = 0; n < stage->nodes_count; n++) {
        const struct sim_node *mine = &stage->nodes[n];
        const struct node *node = cluster_node(cluster, mine->name);
        for (int i = 0; node && i < mine->processes_count; i++) {
            const struct job *job = cluster_job(cluster, mine->processes[i]->key.job);
            if (job && process_lives(mine->processes[i]))
                check_end(stage, node, job, mine->processes[i]);
        }
    }
}

/* A node that is being emptied is kept for nobody: it would never be empty. */
static void check_spares(struct stage *stage, const struct cluster *cluster)
{
    for (const struct job *job = cluster_first_active_job(cluster); job;
         job = cluster_next_active_job(cluster, job))
        for (int i = 0; i < job->workers_count; i++) {
            const struct worker *worker = &job->workers[i];
            const struct node *node = cluster_node(cluster, worker->node);
            if (worker->spare && worker->state != WORKER_EXITED && node && node->want_drain)
                world_fail(stage->world, "%s keeps a spare on %s, which is being emptied", job->id,
                           node->name);
        }
}

/* Nobody with an equal or higher priority gave way, but to whom it was guaranteed. */
static void check_preemptions(struct stage *stage, const struct cluster *cluster)
{
    for (int i = 0; i < stage->jobs_count; i++) {
        const struct job *job =
            stage->jobs[i].id[0] ? cluster_job(cluster, stage->jobs[i].id) : NULL;
        const struct job *to = job && job->state == JOB_PREEMPTING && job->beneficiary[0]
                                   ? cluster_job(cluster, job->beneficiary)
                                   : NULL;
        if (to && to->spec->priority <= job->spec->priority && !to->tenant->guaranteed_slots &&
            stage->operators &&
            !stage->operators->tenants[1].since_ms) /* what is guaranteed never changed */
            world_fail(stage->world, "%s gives way to %s, which has no higher priority", job->id,
                       to->id);
    }
}

/* A job's ledger grows by what passes, to the millisecond, and not once it has ended; steps done
 * again are no more than were. */
static void check_ledgers(struct stage *stage, const struct cluster *cluster)
{
    int64_t now_ms = stage->world->now_ms, ms[LEDGER_COUNT];
    for (int i = 0; i < stage->jobs_count; i++) {
        struct sim_job *mine = &stage->jobs[i];
        const struct job *job = mine->id[0] ? cluster_job(cluster, mine->id) : NULL;
        if (!job)
            continue;
        int64_t sum_ms = ledger_read(&job->ledger, now_ms, ms);
        int64_t passed_ms = job->ledger.closed ? 0 : now_ms - mine->ledger_seen_ms;
        bool same = stage->looked_at == cluster && mine->ledger_seen_ms && !mine->ledger_closed;
        if (same && !job->ledger.closed && sum_ms - mine->ledger_ms != passed_ms)
            world_fail(stage->world, "%s: %lld ms passed and its ledger grew by %lld", job->id,
                       (long long)passed_ms, (long long)(sum_ms - mine->ledger_ms));
        if (mine->ledger_closed && sum_ms != mine->ledger_ms)
            world_fail(stage->world, "%s has ended and its ledger grows", job->id);
        if (job->ledger.rework_steps > mine->redone + job->next_generation)
            world_fail(stage->world, "%s did %llu steps again, its ledger says %llu", job->id,
                       (unsigned long long)mine->redone,
                       (unsigned long long)job->ledger.rework_steps);
        mine->ledger_ms = sum_ms;
        mine->ledger_seen_ms = now_ms;
        mine->ledger_closed = job->ledger.closed && mine->ended[0];
    }
}

/* max_runtime ends no job that held nodes for less. A clock that jumps takes time along. */
static void check_runtimes(struct stage *stage, const struct cluster *cluster)
{
    int64_t now_ms = stage->world->now_ms;
    for (int i = 0; i < stage->jobs_count; i++) {
        struct sim_job *mine = &stage->jobs[i];
        const struct job *job = mine->id[0] ? cluster_job(cluster, mine->id) : NULL;
        if (!job || !mine->max_runtime_s)
            continue;
        if (mine->holds)
            mine->held_ms += now_ms - mine->held_seen_ms;
        mine->held_seen_ms = now_ms;
        mine->holds = job->slots_used > 0;
        if (strcmp(job->reason.kind, "max_runtime") == 0 && !stage->clock_jumps &&
            !stage->restores && mine->held_ms < mine->max_runtime_s * INT64_C(1000))
            world_fail(stage->world, "%s ended by its max_runtime of %d s, and held nodes for %lld",
                       job->id, mine->max_runtime_s, (long long)mine->held_ms / 1000);
    }
}

static void trace_states(struct stage *stage, const struct cluster *cluster)
{
    static char last[SIM_JOBS_MAX][32]; /* one world per process */
    for (int i = 0; i < stage->jobs_count; i++) {
        char now[32];
        const struct job *job =
            stage->jobs[i].id[0] ? cluster_job(cluster, stage->jobs[i].id) : NULL;
        if (!job)
            continue;
        (void)snprintf(now, sizeof(now), "%s %llu", job_state_name(job->state),
                       (unsigned long long)job->next_generation - 1);
        if (strcmp(now, last[i]) != 0)
            world_note(stage->world, "%s: %s (%s)", job->id, now, job->reason.text);
        (void)str_copy(last[i], sizeof(last[i]), now);
    }
}

void stage_check_cluster(struct stage *stage)
{
    struct error err = {0};
    const struct cluster *cluster = coordinator_cluster(stage->coordinator);
    if (!cluster || !coordinator_ready(stage->coordinator, NULL)) {
        stage->looked_at = NULL; /* what comes next is read back, maybe to the same address */
        return;
    }
    if (stage->world->trace)
        trace_states(stage, cluster);
    if (stage->looked_at != cluster) /* it was read back: leases begin anew */
        stage->coordinator_since_ms = stage->world->now_ms;
    keeping_check(stage, cluster);
    if (invariant_check(cluster, &err) < 0 ||
        invariant_check_since(stage->memory, cluster, &err) < 0)
        world_fail(stage->world, "%s", err.text);
    check_promises(stage, cluster);
    check_keys(stage, cluster);
    check_checkpoints(stage, cluster);
    check_ledgers(stage, cluster);
    check_runtimes(stage, cluster);
    sizes_check(stage, cluster);
    faults_strike_left(stage, cluster);
    check_limits(stage, cluster);
    check_preemptions(stage, cluster);
    check_ends(stage, cluster);
    check_spares(stage, cluster);
    backup_check(stage, cluster);
    operators_check(stage, cluster);
    check_lost(stage, cluster);
    remember_ends(stage, cluster);
}

/* A slot has one owner, also among processes: a new worker starts only where the old ones ended. */
void stage_check_start(struct stage *stage, struct sim_node *node, const struct worker_key *key)
{
    int living = 0;
    for (int i = 0; i < node->processes_count; i++)
        living += process_lives(node->processes[i]);
    if (living + 1 > node->slots)
        world_fail(stage->world, "%s/%llu starts on %s, whose %d slots are taken by living workers",
                   key->job, (unsigned long long)key->uid, node->name, node->slots);
}

/* All ranks of a generation are told the same membership, also by another life of the coordinator.
 */
struct membership_seen *stage_membership(struct stage *stage, const char *job, uint64_t generation,
                                         uint64_t digest)
{
    for (int i = 0; i < stage->memberships_count; i++) {
        struct membership_seen *seen = &stage->memberships[i];
        if (seen->generation != generation || strcmp(seen->job, job) != 0)
            continue;
        if (seen->digest != digest)
            world_fail(stage->world, "%s: generation %llu has two memberships", job,
                       (unsigned long long)generation);
        return seen;
    }
    if (stage->memberships_count == stage->memberships_capacity) {
        stage->memberships_capacity = stage->memberships_capacity * 2 + 64;
        stage->memberships = realloc(stage->memberships, sizeof(*stage->memberships) *
                                                             (size_t)stage->memberships_capacity);
        insist(stage->memberships);
    }
    struct membership_seen *seen = &stage->memberships[stage->memberships_count++];
    *seen = (struct membership_seen){.generation = generation, .digest = digest};
    (void)str_copy(seen->job, sizeof(seen->job), job);
    return seen;
}

/* Ranks of a generation are 0..world-1, each one process. */
void stage_check_training(struct stage *stage, const struct process *process)
{
    if (process->rank >= process->world_size)
        world_fail(stage->world, "%s: rank %u in a world of %u", process->key.job, process->rank,
                   process->world_size);
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = 0; i < stage->nodes[n].processes_count; i++) {
            const struct process *other = stage->nodes[n].processes[i];
            if (other != process && process_lives(other) && other->state == PROCESS_TRAINING &&
                other->generation == process->generation && other->rank == process->rank &&
                strcmp(other->key.job, process->key.job) == 0)
                world_fail(stage->world,
                           "%s: uids %llu and %llu are both rank %u of generation %llu",
                           process->key.job, (unsigned long long)process->key.uid,
                           (unsigned long long)other->key.uid, process->rank,
                           (unsigned long long)process->generation);
        }
}
