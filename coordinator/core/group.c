/* One membership of a gang.
 *
 *    fresh gang, or a failure:            form (open) ─► all asked to join ─► published: forming
 *                                                        becomes current, membership is published
 *    growth: form (closed: only new workers know) ─► new ones asked to join ─► open ─► as above
 *    programs that never say Hello:       form (open) ─► all processes run ─► published, not joined
 *
 * A failure meanwhile makes a newer group (restart.c); generations only rise.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/internal.h"

static uint64_t add_newcomer(struct step *step, struct job *job, const struct newcomer *newcomer,
                             uint64_t generation, bool held)
{
    struct worker worker = {
        .uid = job->next_uid++,
        .state = WORKER_ASSIGNED,
        .held = held,
        .slot = newcomer->slot,
        .local_rank = newcomer->local_rank,
        .born = generation,
    };
    (void)str_copy(worker.node, sizeof(worker.node), newcomer->node);
    job_add_worker(step->cluster, job, &worker);
    return worker.uid;
}

static void number_members(struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++) {
        struct worker *worker = job_worker(job, group->members[rank]);
        worker->rank = rank;
        worker->generation = group->generation;
    }
}

void group_form(struct step *step, struct job *job, const struct formation *formation)
{
    int world = formation->kept_count + formation->newcomers_count;
    struct rank_request *requests = calloc((size_t)world, sizeof(*requests));
    struct group group = {.generation = job->next_generation++,
                          .world = world,
                          .open = formation->open,
                          .since_ms = step->now_ms};
    group.members = calloc((size_t)world, sizeof(*group.members));
    insist(requests && group.members);
    for (int i = 0; i < formation->kept_count; i++)
        requests[i] = formation->kept[i];
    for (int i = 0; i < formation->newcomers_count; i++)
        requests[formation->kept_count + i] =
            (struct rank_request){.uid = add_newcomer(step, job, &formation->newcomers[i],
                                                      group.generation, formation->held),
                                  .rank = formation->newcomers[i].rank};
    ranks_assign(requests, world, group.members);
    const struct worker *first = job_worker(job, group.members[0]);
    (void)str_copy(group.master_node, sizeof(group.master_node), first->node);
    group.master_port = cluster_free_port(step->cluster, cluster_node(step->cluster, first->node));
    step_desired_group(step, job, &job->forming);
    group_set(step->cluster, job, &job->forming, &group);
    number_members(job, &job->forming);
    step_desired_group(step, job, &job->forming);
    step_settle(step, job);
    free(requests);
    free(group.members);
}

bool group_all_finished(const struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++)
        if (!worker_finished(job_worker(job, group->members[rank])))
            return false;
    return group->generation != 0;
}

bool group_has_asked(const struct worker *worker, uint64_t generation)
{
    return worker->endpoint[0] && worker_living(worker) &&
           (worker->joining == generation || worker->joined == generation);
}

/* True if all members, or all that are not members of `except`, have asked to join. */
static bool all_asked(const struct job *job, const struct group *group, const struct group *except)
{
    for (int rank = 0; rank < group->world; rank++) {
        uint64_t uid = group->members[rank];
        if (except && group_rank_of(except, uid) >= 0)
            continue;
        if (!group_has_asked(job_worker(job, uid), group->generation))
            return false;
    }
    return true;
}

/* When a group with a silent program counts as running; INT64_MAX = not yet, or never. */
static int64_t unaware_at(const struct job *job, const struct group *group)
{
    int64_t last_ms = group->since_ms;
    if (job->current.joined)
        return INT64_MAX;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (worker->aware || worker->state == WORKER_ASSIGNED)
            return INT64_MAX;
        if (worker->started_ms > last_ms)
            last_ms = worker->started_ms;
    }
    return last_ms + UNAWARE_AFTER_MS;
}

static void record_generation(struct step *step, const struct job *job, const struct reason *reason)
{
    struct record *record = step_record(step, "generation", job, NULL, reason);
    record->generation = job->current.generation;
}

/* The last step any member had completed when it joined: the members make later steps together. */
static uint64_t best_step(const struct job *job)
{
    uint64_t best = 0;
    for (int rank = 0; rank < job->current.world; rank++) {
        const struct worker *worker = job_worker(job, job->current.members[rank]);
        if (worker->step > best)
            best = worker->step;
    }
    return best;
}

static void become_running(struct step *step, struct job *job, const struct reason *reason)
{
    if (!job->started_wall_ms)
        job->started_wall_ms = step->wall_ms;
    runtime_count(step, job);
    if (job->broken_at_ms) {
        job->recoveries++;
        job->tenant->recoveries++;
        job->broken_at_step = best_step(job);
    }
    job->cause_wall_ms = 0;
    job->progress_at_ms = step->now_ms;
    job->running_wall_ms = step->wall_ms;
    job_set_state(step, job, JOB_RUNNING, reason);
    step->place = true; /* it may grow */
}

static void publish(struct step *step, struct job *job, bool joined)
{
    struct reason reason;
    if (job->current.generation && !job->current.broken)
        job->grow_failures = 0;
    step_desired_group(step, job, &job->current);
    group_clear(step->cluster, job, &job->current);
    group_move(&job->current, &job->forming);
    struct group *group = &job->current;
    group->published = true;
    group->joined = joined;
    group->open = false;
    group->broken = false;
    group->since_ms = step->now_ms;
    for (int rank = 0; rank < group->world; rank++) {
        struct worker *worker = job_worker(job, group->members[rank]);
        if (joined && worker->joined < group->generation)
            worker->joined = group->generation;
        if (joined && worker->state == WORKER_STARTING)
            worker->state = WORKER_JOINED;
    }
    job_forget_workers(job);
    scale_apply(step, job);
    step_desired_group(step, job, group);
    unsigned long long generation = group->generation;
    bool over = group_all_finished(job, group);
    if (joined && group->world == 1)
        reason_set(&reason, REASON_ALL_JOINED, "its rank has joined generation %llu", generation);
    else if (joined)
        reason_set(&reason, REASON_ALL_JOINED, "all %d ranks have joined generation %llu",
                   group->world, generation);
    else if (group->world == 1)
        reason_set(&reason, REASON_ALL_STARTED, "its process %s", over ? "ran" : "runs");
    else
        reason_set(&reason, REASON_ALL_STARTED, "all %d processes %s", group->world,
                   over ? "ran" : "run");
    record_generation(step, job, &reason);
    become_running(step, job, &reason);
}

static void open_forming(struct step *step, struct job *job)
{
    struct reason reason;
    struct group *group = &job->forming;
    group->open = true;
    group->since_ms = step->now_ms;
    step_desired_group(step, job, group);
    int newcomers = group->world - job->current.world;
    reason_set(&reason, REASON_GROWING, "%d worker%s the %d that train%s", newcomers,
               newcomers == 1 ? " joins" : "s join", job->current.world,
               job->current.world == 1 ? "s" : "");
    job_set_state(step, job, JOB_REFORMING, &reason);
}

static void settle_forming(struct step *step, struct job *job)
{
    struct group *group = &job->forming;
    if (!group->open) {
        if (all_asked(job, group, &job->current))
            open_forming(step, job);
        return;
    }
    if (all_asked(job, group, NULL))
        publish(step, job, true);
    else if (step->now_ms >= unaware_at(job, group))
        publish(step, job, false);
}

/* The program uses libworker after all: its Hello was late. */
static void settle_late_join(struct step *step, struct job *job)
{
    struct group *group = &job->current;
    if (group->joined || !group->published || !all_asked(job, group, NULL))
        return;
    group->joined = true;
    for (int rank = 0; rank < group->world; rank++) {
        struct worker *worker = job_worker(job, group->members[rank]);
        if (worker->joined < group->generation)
            worker->joined = group->generation;
    }
    step_desired_group(step, job, group);
    step_settle(step, job);
}

static void release_held(struct step *step, struct job *job)
{
    if (step->now_ms < job->backoff_until_ms)
        return;
    for (int i = 0; i < job->workers_count; i++) {
        struct worker *worker = &job->workers[i];
        if (!worker->held || worker->spare)
            continue;
        worker->held = false;
        job->forming.since_ms = step->now_ms;
        step_desired(step, worker->node);
        step_store(step, job);
    }
}

void group_finished_reason(const struct group *group, struct reason *ret)
{
    if (group->world == 1)
        reason_set(ret, REASON_SUCCEEDED, "its rank finished");
    else
        reason_set(ret, REASON_SUCCEEDED, "all %d ranks finished", group->world);
}

void group_settle(struct step *step, struct job *job)
{
    struct failure failure;
    struct reason reason;
    const struct group *trains = job->current.generation ? &job->current : &job->forming;
    insist(trains->generation);
    if (group_all_finished(job, trains)) {
        if (trains == &job->forming) /* it finished before its kind of program was known */
            publish(step, job, false);
        group_finished_reason(&job->current, &reason);
        job_stop(step, job, JOB_SUCCEEDED, &reason);
        return;
    }
    release_held(step, job);
    if (restart_find_failure(step, job, &failure))
        restart_recover(step, job, &failure);
    else if (job->forming.generation)
        settle_forming(step, job);
    else
        settle_late_join(step, job);
}

static void earlier(int64_t *at_ms, int64_t candidate_ms)
{
    if (candidate_ms < *at_ms)
        *at_ms = candidate_ms;
}

int64_t group_wake_at(const struct job *job)
{
    int64_t at_ms = INT64_MAX;
    if (job->forming.generation) {
        earlier(&at_ms, group_join_deadline(job, &job->forming));
        earlier(&at_ms, unaware_at(job, &job->forming));
    } else if (job->current.generation) {
        earlier(&at_ms, group_join_deadline(job, &job->current));
        earlier(&at_ms, group_patience_ends(job));
    }
    return at_ms;
}
