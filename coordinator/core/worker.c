/* One process, as reported by its agent.
 *
 *     assigned ──► starting ──► joined ──► exited        stopping: between SIGTERM and the exit
 *          └───────────┴──────────┴─► stopping ──► exited
 */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/internal.h"

bool worker_living(const struct worker *worker)
{
    return worker->state != WORKER_EXITED;
}

bool worker_finished(const struct worker *worker)
{
    const struct exit_info *exit = &worker->exit;
    return worker->state == WORKER_EXITED && exit->code == 0 && exit->signal == 0 && !exit->oom &&
           !exit->lost;
}

int job_living(const struct job *job)
{
    int living = 0;
    for (int i = 0; i < job->workers_count; i++)
        living += worker_living(&job->workers[i]);
    return living;
}

int core_living(const struct cluster *cluster)
{
    int living = 0;
    for (const struct job *job = cluster_first_begun_job(cluster); job;
         job = cluster_next_begun_job(cluster, job))
        living += job_living(job);
    return living;
}

/* Why it was asked to stop: the situation of its node or its job. */
static void stop_reason(const struct step *step, const struct job *job, const struct worker *worker,
                        struct reason *ret)
{
    const struct node *node = cluster_node(step->cluster, worker->node);
    const char *why = "the gang continues without it";
    if (job->state == JOB_PREEMPTING || job->state == JOB_STOPPING || job->state == JOB_RESTARTING)
        why = job->reason.text;
    else if (worker->leaving)
        why = "its node is given back";
    else if (node && node->want_drain)
        why = "its node is being emptied";
    reason_set(ret, REASON_STOPPED, "rank %d was asked to stop (%.300s): %s", worker->rank, why,
               worker->exit.text);
}

static void exit_reason(const struct step *step, const struct job *job, const struct worker *worker,
                        struct reason *ret)
{
    const struct exit_info *exit = &worker->exit;
    if (worker_finished(worker))
        reason_set(ret, REASON_SUCCEEDED, "rank %d finished", worker->rank);
    else if (worker->should_stop && !exit->lost)
        stop_reason(step, job, worker, ret);
    else
        reason_set(ret, exit->lost ? REASON_WORKER_LOST : REASON_WORKER_FAILED, "rank %d: %s",
                   worker->rank, exit->text);
    ret->rank = worker->rank;
    (void)str_copy(ret->node, sizeof(ret->node), worker->node);
}

static void describe_exit(struct exit_info *exit)
{
    if (exit->text[0])
        return;
    if (exit->signal)
        (void)str_printf(exit->text, sizeof(exit->text), "killed by signal %d%s", exit->signal,
                         exit->oom ? " (out of memory)" : "");
    else
        (void)str_printf(exit->text, sizeof(exit->text), "exited with code %d", exit->code);
}

static bool any_leaves(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (worker_living(&job->workers[i]) && job->workers[i].leaving)
            return true;
    return false;
}

void worker_end(struct step *step, struct job *job, struct worker *worker,
                const struct exit_info *exit)
{
    struct reason reason;
    if (!worker_living(worker))
        return;
    if (worker->spare) {
        spare_end(step, job, worker, exit->text);
        return;
    }
    worker->exit = *exit;
    describe_exit(&worker->exit);
    if (!worker->exit.wall_ms)
        worker->exit.wall_ms = step->wall_ms;
    job_worker_gone(step->cluster, job, worker);
    if (worker->leaving && !any_leaves(job) && job->state != JOB_PREEMPTING)
        job->gives_to[0] = 0;
    exit_reason(step, job, worker, &reason);
    struct record *record = step_record(step, "worker_exited", job, worker->node, &reason);
    if (!worker_finished(worker) && !worker->should_stop)
        reason_output(&record->reason, worker->exit.last_output);
    if (worker_finished(worker))
        job->progress_at_ms = step->now_ms;
    step_desired(step, worker->node);
    step_settle(step, job);
    step->place = true;
    restart_earlier_cause(step, job, worker);
    budget_hear(step, job, worker);
}

void worker_stop(struct step *step, struct job *job, struct worker *worker)
{
    if (!worker_living(worker))
        return;
    if (worker->held) { /* its agent does not know of it */
        struct exit_info exit = {.signal = 15};
        (void)str_copy(exit.text, sizeof(exit.text), "stopped before it was started");
        worker->held = false;
        worker_end(step, job, worker, &exit);
        return;
    }
    if (worker->should_stop)
        return;
    worker->should_stop = true;
    step_desired(step, worker->node);
    step_store(step, job);
}

static void take_exit(struct step *step, struct job *job, struct worker *worker,
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
            node_cannot_start(step, worker->node, report->start_error);
        exit = (struct exit_info){.unstarted = true,
                                  .node_fault = node_fault,
                                  .code = exit.code ? exit.code : EXIT_NOT_FOUND,
                                  .wall_ms = exit.wall_ms};
        if (str_printf(exit.text, sizeof(exit.text), "could not be started: %s",
                       report->start_error) < 0)
            exit.text[sizeof(exit.text) - 1] = 0;
    }
    worker_end(step, job, worker, &exit);
}

/* Its gang continues without it. Its node gets no new work until its processes have ended. */
static void take_stuck(struct step *step, struct job *job, struct worker *worker,
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

static void take_lost_ranks(struct step *step, struct job *job, const struct worker_report *report)
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

static bool take_broken(struct step *step, struct job *job, struct worker *worker,
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
    take_lost_ranks(step, job, report);
    return first;
}

static void take_saved(struct job *job, const struct worker_report *report)
{
    static const double longest_ms = 1e12;
    double ms = report->saved_s * 1000 * (double)(report->step - job->step);
    if (ms > 0) /* excludes NAN too */
        ledger_saved(&job->ledger, (int64_t)(ms < longest_ms ? ms : longest_ms));
}

static void take_progress(struct step *step, struct job *job, struct worker *worker,
                          const struct worker_report *report)
{
    const struct group *group = &job->current;
    if (report->step > worker->step)
        worker->step = report->step;
    bool member = group->published && group_rank_of(group, worker->uid) >= 0 &&
                  (!worker->aware || report->generation == group->generation);
    if (!member)
        return;
    if (report->total_steps && report->total_steps != job->total_steps) {
        job->total_steps = report->total_steps;
        step_show(step, job);
    }
    if (!isnan(report->loss))
        job->loss = report->loss;
    if (!isnan(report->tokens_per_second))
        job->tokens_per_second = report->tokens_per_second;
    if (report->step <= job->step)
        return;
    take_saved(job, report);
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

static bool take_state(struct step *step, struct job *job, struct worker *worker,
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

static bool take_join(struct step *step, struct job *job, struct worker *worker,
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
    if (report->generation > worker->joined) {
        worker->joined = report->generation;
        changed = true;
    }
    if (report->joining > worker->joining ||
        (report->joining && report->joining == worker->joining && endpoint[0] &&
         strcmp(worker->endpoint, endpoint) != 0)) {
        worker->joining = report->joining;
        if (str_copy(worker->endpoint, sizeof(worker->endpoint), endpoint) < 0)
            worker->endpoint[0] = 0; /* a cut address is useless */
        changed = true;
    }
    return changed;
}

static void take_wait(struct step *step, struct job *job, struct worker *worker,
                      const struct worker_report *report)
{
    bool waits = report->wait && report->generation == worker->joined;
    bool changed = waits != (worker->wait.waited_ms != 0);
    if (changed)
        step_show(step, job);
    worker->wait = waits ? *report->wait : (struct collective_wait){0};
    if (changed || (!job->stalled_wall_ms && worker->wait.waited_ms >= STALL_MIN_MS))
        step_look(step, job);
}

static void take_worker(struct step *step, struct job *job, struct worker *worker,
                        const struct worker_report *report)
{
    bool changed = false;
    if (report->pid && report->pid != worker->pid) {
        worker->pid = report->pid;
        changed = true;
    }
    changed |= take_join(step, job, worker, report);
    take_progress(step, job, worker, report);
    take_wait(step, job, worker, report);
    changed |= take_broken(step, job, worker, report);
    if (!worker_living(worker)) /* its own node was just lost? then not by its own report */
        return;
    if (report->state == WORKER_EXITED) {
        take_exit(step, job, worker, report);
        return;
    }
    if (report->stuck_count > 0) {
        take_stuck(step, job, worker, report);
        return;
    }
    changed |= take_state(step, job, worker, report);
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
    step->place = step->place || node->stuck != before;
}

void workers_take(struct step *step, struct node *node, const struct worker_report *reports,
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
            take_worker(step, job, worker, &reports[i]);
        } else if (reports[i].state != WORKER_EXITED) {
            node->foreign++;
        }
    }
    step->place = step->place || node->foreign != foreign;
    for (struct map_entry *e = map_first(&node->jobs), *next; e; e = next) {
        next = map_next(e);
        end_unnamed(step, node, e->value);
    }
}
