#include "coordinator/core/report.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/job_ledger.h"
#include "coordinator/core/lease.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/node_state.h"
#include "coordinator/core/stall_watch.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

static void apply_exit(struct step *step, struct job *job, struct worker *worker,
                       const struct worker_report *report)
{
    struct exit_info exit = {.lost = true};
    if (report->exit)
        exit = *report->exit;
    else
        (void)str_copy(exit.text, sizeof(exit.text), "ended for an unknown reason");
    if (report->start_error && report->start_error[0]) {
        bool node_fault = exit.code == EXIT_NODE_FAULT;
        if (node_fault)
            node_note_fault(step, worker->node, report->start_error);
        exit = (struct exit_info){.unstarted = true,
                                  .node_fault = node_fault,
                                  .code = exit.code ? exit.code : EXIT_NOT_FOUND,
                                  .wall_ms = exit.wall_ms};
        if (str_printf(exit.text, sizeof(exit.text), "could not be started: %s",
                       report->start_error))
            exit.text[sizeof(exit.text) - 1] = 0;
    }
    worker_end(step, job, worker, &exit);
}

/* Its gang continues without it. Its node gets no new work until its processes have ended. */
static void apply_stuck(struct step *step, struct job *job, struct worker *worker,
                        const struct worker_report *report)
{
    /* A worker that was asked to stop ends by our own SIGKILL, sooner or later. */
    struct exit_info exit = {.lost = !worker->should_stop};
    if (report->exit)
        exit = *report->exit;
    else
        (void)str_printf(exit.text, sizeof(exit.text), "SIGKILL does not end its process %lld",
                         (long long)report->stuck_pids[0]);
    if (!report->exit && worker->should_stop)
        exit.signal = SIGKILL;
    worker_end(step, job, worker, &exit);
}

static void apply_lost_ranks(struct step *step, struct job *job, const struct worker_report *report)
{
    const struct group *group = &job->current;
    for (int i = 0; i < report->lost_ranks_count; i++) {
        uint32_t rank = report->lost_ranks[i];
        struct worker *victim =
            rank < (uint32_t)group->world ? job_worker(job, group->members[rank]) : NULL;
        if (!victim || victim->lost_in == group->generation)
            continue;
        victim->lost_in = group->generation;
        struct node *node = cluster_node(step->cluster, victim->node);
        if (!worker_living(victim) || !node || !node->gone)
            continue; /* silence since our own restart is no hint: it had no time to report */
        struct reason reason;
        reason_set(&reason, REASON_PEERS_SAW_IT_DIE,
                   "its connection is lost and its peers lost its ranks");
        node_lose(step, node, &reason);
    }
}

static bool apply_broken(struct step *step, struct job *job, struct worker *worker,
                         const struct worker_report *report)
{
    struct group *group = &job->current;
    if (job_gang_ends(job)) /* its ranks leave one by one: nothing is lost */
        return false;
    if (!report->broken || report->broken != group->generation || !group->published)
        return false;
    bool first = worker->broken != report->broken;
    worker->broken = report->broken;
    group->broken = true;
    if (!job->broken_at_ms)
        job->broken_at_ms = step->now_ms;
    apply_lost_ranks(step, job, report);
    return first;
}

static void apply_saved(struct job *job, const struct worker_report *report)
{
    static const double longest_ms = 1e12;
    double ms = report->saved_once_s * 1000;
    if (report->step > job->step)
        ms += report->saved_s * 1000 * (double)(report->step - job->step);
    if (ms > 0) /* excludes NAN too */
        ledger_saved(&job->ledger, (int64_t)(ms < longest_ms ? ms : longest_ms));
}

/* No process of the gang has completed a step. One that joins has started before that; one that
 * only reports shows by its first step that it has. */
static bool is_starting(const struct job *job)
{
    const struct group *group = &job->current;
    if (job->state != JOB_RUNNING || group->joined)
        return false;
    for (int rank = 0; rank < group->world; rank++)
        if (job_worker(job, group->members[rank])->step)
            return false;
    return true;
}

static void apply_progress(struct step *step, struct job *job, struct worker *worker,
                           const struct worker_report *report)
{
    const struct group *group = &job->current;
    bool first = report->step > 0 && is_starting(job);
    if (report->step > worker->step)
        worker->step = report->step;
    bool member = group->published && group_rank_of(group, worker->uid) >= 0 &&
                  (!worker->aware || report->generation == group->generation);
    if (!member)
        return;
    if (first)
        job_ledger_started(job, step->now_ms, step->wall_ms);
    if (report->total_steps && report->total_steps != job->total_steps) {
        job->total_steps = report->total_steps;
        step_show(step, job);
    }
    if (!isnan(report->loss))
        job->loss = report->loss;
    if (!isnan(report->tokens_per_second))
        job->tokens_per_second = report->tokens_per_second;
    apply_saved(job, report);
    if (report->busy)
        ledger_busy(&job->ledger, step->now_ms);
    if (report->step <= job->step)
        return;
    stall_end(step, job);
    job->step = report->step;
    job->progress_at_ms = job->stepped_at_ms = step->now_ms;
    step_show(step, job);
    if (job->broken_at_ms && !group->broken && job->step > job->broken_at_step) {
        job->last_recovery_ms = step->now_ms - job->broken_at_ms;
        job->broken_at_ms = 0;
        step_store(step, job);
    }
}

static bool apply_state(struct step *step, struct job *job, struct worker *worker,
                        const struct worker_report *report)
{
    enum worker_state state = report->state;
    bool unborn = state == WORKER_STARTING && report->pid <= 0; /* its shim is being started */
    if (state == WORKER_ASSIGNED || state == worker->state || unborn ||
        (state == WORKER_STARTING && worker->state == WORKER_JOINED))
        return false;
    if (worker->state == WORKER_ASSIGNED) {
        struct reason reason;
        reason_set(&reason, REASON_PLACED, "rank %d runs as process %lld", worker->rank,
                   (long long)report->pid);
        reason.rank = worker->rank;
        if (report->pid > 0) /* otherwise it ended before it existed */
            step_record(step, "worker_started", job, worker->node, &reason);
        worker->started_ms = step->now_ms;
    }
    worker->state = state;
    return true;
}

static void note_start(const struct step *step, struct job *job, const struct worker *worker)
{
    if (!worker->joining && !worker->joined && worker->started_ms)
        job->start_took_ms = step->now_ms - worker->started_ms;
}

static bool apply_join(struct step *step, struct job *job, struct worker *worker,
                       const struct worker_report *report)
{
    bool changed = false;
    const char *endpoint = report->endpoint ? report->endpoint : "";
    if (report->aware && !worker->aware) {
        worker->aware = changed = true;
        if (job->current.published && !job->current.joined) /* it uses libworker after all: wait for
                                                             * it */
            job->current.since_ms = step->now_ms;
    }
    if (report->reports && !worker->reports)
        worker->reports = changed = true;
    if (report->generation > worker->joined) {
        worker->joined = report->generation;
        changed = true;
    }
    if (report->joining > worker->joining ||
        (report->joining && report->joining == worker->joining && endpoint[0] &&
         strcmp(worker->endpoint, endpoint) != 0)) {
        note_start(step, job, worker);
        worker->joining = report->joining;
        if (str_copy(worker->endpoint, sizeof(worker->endpoint), endpoint))
            worker->endpoint[0] = 0; /* a cut address is useless */
        changed = true;
    }
    return changed;
}

static void apply_wait(struct step *step, struct job *job, struct worker *worker,
                       const struct worker_report *report)
{
    bool waits = report->wait && report->generation == worker->joined;
    bool changed = waits != (worker->wait.waited_ms != 0);
    if (changed)
        step_show(step, job);
    worker->wait = waits ? *report->wait : (struct collective_wait){0};
    if (changed || (!job->stalled_wall_ms && worker->wait.waited_ms >= STALL_MIN_MS))
        step_revisit(step, job);
}

static void apply_report(struct step *step, struct job *job, struct worker *worker,
                         const struct worker_report *report)
{
    bool changed = false;
    if (report->pid && report->pid != worker->pid) {
        worker->pid = report->pid;
        changed = true;
    }
    changed |= apply_join(step, job, worker, report);
    worker->reports_dropped = report->reports_dropped;
    apply_progress(step, job, worker, report);
    apply_wait(step, job, worker, report);
    changed |= apply_broken(step, job, worker, report);
    if (!worker_living(worker)) /* its own node was just lost? then not by its own report */
        return;
    if (report->state == WORKER_EXITED) {
        apply_exit(step, job, worker, report);
        return;
    }
    if (report->stuck_count > 0) {
        apply_stuck(step, job, worker, report);
        return;
    }
    changed |= apply_state(step, job, worker, report);
    if (changed)
        step_settle(step, job);
}

/* Workers that the node no longer names: it has forgotten them, or rebooted. */
static void end_unnamed(struct step *step, struct node *node, struct job *job)
{
    struct exit_info exit = {.lost = true, .wall_ms = step->wall_ms};
    (void)str_printf(exit.text, sizeof(exit.text), "node %s knows nothing of it any more",
                     node->name);
    for (int i = 0; i < job->workers_count; i++) {
        struct worker *worker = &job->workers[i];
        if (worker_living(worker) && worker->state != WORKER_ASSIGNED &&
            worker->stamp != node->stamp && strcmp(worker->node, node->name) == 0)
            worker_end(step, job, worker, &exit);
    }
}

/* Call it before the workers are processed: the fate of their gangs depends on which nodes accept
 * no starts. */
static void count_stuck(struct step *step, struct node *node, const struct worker_report *reports,
                        int count)
{
    int before = node->stuck;
    node->stuck = 0;
    for (int i = count - 1; i >= 0; i--) {
        if (!reports[i].stuck_count)
            continue;
        node->stuck++;
        (void)str_printf(node->stuck_text, sizeof(node->stuck_text), "process %lld of %s",
                         (long long)reports[i].stuck_pids[0], reports[i].job);
    }
    step->wants_pass = step->wants_pass || node->stuck != before;
}

void reports_apply(struct step *step, struct node *node, const struct worker_report *reports,
                   int count)
{
    int foreign = node->foreign;
    count_stuck(step, node, reports, count);
    node->stamp++;
    node->foreign = 0;
    for (int i = 0; i < count; i++) {
        struct job *job = cluster_job(step->cluster, reports[i].job);
        struct worker *worker = job ? job_worker(job, reports[i].uid) : NULL;
        bool ours = worker && worker_living(worker) && !worker->held &&
                    strcmp(worker->node, node->name) == 0;
        if (ours) {
            worker->stamp = node->stamp;
            apply_report(step, job, worker, &reports[i]);
        } else if (reports[i].state != WORKER_EXITED) {
            node->foreign++;
        }
    }
    step->wants_pass = step->wants_pass || node->foreign != foreign;
    for (struct map_entry *e = map_first(&node->jobs), *next; e; e = next) {
        next = map_next(e);
        end_unnamed(step, node, e->value);
    }
}
