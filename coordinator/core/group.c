#include "coordinator/core/group.h"

#include "common/base/assert.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/deadline.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/failure.h"
#include "coordinator/core/job_size.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/move.h"
#include "coordinator/core/newcomers.h"
#include "coordinator/core/restart.h"
#include "coordinator/core/runtime.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/gang.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/tenant.h"

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

/* When a group with a silent program counts as running; INT64_MAX = not yet, or never. A program
 * that reports, and has not sent Hello, is known not to join. */
static int64_t unaware_at(const struct job *job, const struct group *group)
{
    int64_t last_ms = group->since_ms;
    bool all_report = true;
    if (job->current.joined)
        return INT64_MAX;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (worker->aware || worker->state == WORKER_ASSIGNED)
            return INT64_MAX;
        if (worker->started_ms > last_ms)
            last_ms = worker->started_ms;
        all_report &= worker->reports;
    }
    return all_report ? last_ms : last_ms + UNAWARE_AFTER_MS;
}

static void record_generation(struct step *step, const struct job *job, const struct reason *reason)
{
    struct record *record = step_record(step, "generation", job, NULL, reason);
    record->generation = job->current.generation;
}

/* The last step any member had completed when it joined: the members make later steps together. */
static uint64_t best_joined_step(const struct job *job)
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
        job->broken_at_step = best_joined_step(job);
    }
    job->cause_wall_ms = 0;
    job->progress_at_ms = step->now_ms;
    job->running_wall_ms = step->wall_ms;
    job_set_state(step, job, JOB_RUNNING, reason);
    step->wants_pass = true; /* it may grow */
}

static void publish_group(struct step *step, struct job *job, bool joined)
{
    struct reason reason;
    if (job->current.generation && !job->current.broken)
        job->grow_failures = 0;
    step_reassign_group(step, job, &job->current);
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
    move_over(job);
    job_size_apply(step, job);
    step_reassign_group(step, job, group);
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
    int newcomers = group->world - job->current.world;
    if (job_is_moving(job))
        move_leave(step, job, &reason);
    else
        reason_set(&reason, REASON_GROWING, "%d worker%s the %d that train%s", newcomers,
                   newcomers == 1 ? " joins" : "s join", job->current.world,
                   job->current.world == 1 ? "s" : "");
    group->open = true;
    group->since_ms = step->now_ms;
    step_reassign_group(step, job, group);
    job_set_state(step, job, JOB_REFORMING, &reason);
}

static void publish_without_late(struct step *step, struct job *job)
{
    struct late late;
    newcomers_set_aside(step, job, &late);
    publish_group(step, job, true);
    newcomers_form(step, job, &late);
}

static void settle_forming(struct step *step, struct job *job)
{
    struct group *group = &job->forming;
    if (!group->open) {
        if (all_asked(job, group, &job->current) || move_is_overdue(job, step->now_ms))
            open_forming(step, job);
        return;
    }
    if (all_asked(job, group, NULL))
        publish_group(step, job, true);
    else if (newcomers_are_late(job, step->now_ms))
        publish_without_late(step, job);
    else if (step->now_ms >= unaware_at(job, group))
        publish_group(step, job, false);
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
    step_reassign_group(step, job, group);
    step_settle(step, job);
    step->wants_pass = true; /* it may grow in place */
}

static void settle_trained(struct step *step, struct job *job)
{
    move_over(job); /* no member leaves */
    settle_late_join(step, job);
}

static void release_held_workers(struct step *step, struct job *job)
{
    if (step->now_ms < job->backoff_until_ms)
        return;
    for (int i = 0; i < job->workers_count; i++) {
        struct worker *worker = &job->workers[i];
        if (!worker->held || worker->spare)
            continue;
        worker->held = false;
        job->forming.since_ms = step->now_ms;
        step_reassign_node(step, worker->node);
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
            publish_group(step, job, false);
        group_finished_reason(&job->current, &reason);
        job_stop(step, job, JOB_SUCCEEDED, &reason);
        return;
    }
    release_held_workers(step, job);
    if (failure_find(step, job, &failure))
        restart_recover(step, job, &failure);
    else if (move_is_void(step, job))
        restart_stay(step, job);
    else if (job->forming.generation)
        settle_forming(step, job);
    else
        settle_trained(step, job);
}

static void take_earlier(int64_t *at_ms, int64_t candidate_ms)
{
    if (candidate_ms < *at_ms)
        *at_ms = candidate_ms;
}

int64_t group_wake_at(const struct job *job)
{
    int64_t at_ms = move_wake_at(job);
    if (job->forming.generation) {
        take_earlier(&at_ms, group_join_deadline(job, &job->forming));
        take_earlier(&at_ms, unaware_at(job, &job->forming));
        take_earlier(&at_ms, newcomers_wake_at(job));
    } else if (job->current.generation) {
        take_earlier(&at_ms, group_join_deadline(job, &job->current));
        take_earlier(&at_ms, group_progress_deadline(job));
    }
    return at_ms;
}
