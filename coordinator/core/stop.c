#include "coordinator/core/stop.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/budget.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/failure.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/spare.h"
#include "coordinator/model/gang.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/stop_reason.h"

static void describe_stop(const struct step *step, const struct job *job,
                          const struct worker *worker, struct reason *ret)
{
    char why[STOP_REASON_MAX + 1];
    worker_stop_reason(step->cluster, job, worker, why);
    reason_set(ret, REASON_STOPPED, "rank %d was asked to stop (%.300s): %s", worker->rank, why,
               worker->exit.text);
}

static void describe_end(const struct step *step, const struct job *job,
                         const struct worker *worker, struct reason *ret)
{
    const struct exit_info *exit = &worker->exit;
    if (worker_finished(worker))
        reason_set(ret, REASON_SUCCEEDED, "rank %d finished", worker->rank);
    else if (worker->should_stop && !exit->lost)
        describe_stop(step, job, worker, ret);
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

static bool any_worker_leaves(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (worker_living(&job->workers[i]) && job->workers[i].leaving)
            return true;
    return false;
}

/* True for a reason that names a worker as the cause. */
static bool blames_worker(const struct reason *reason)
{
    static const enum reason_kind kinds[] = {REASON_WORKER_FAILED, REASON_PEERS_LOST,
                                             REASON_CRASH_LOOP, REASON_RESTART_BUDGET};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(reason->kind, reason_name(kinds[i])) == 0)
            return true;
    return false;
}

/* The peers of a worker that failed by itself are its victims, whatever their clocks show. A worker
 * that we asked to stop may have failed because of that, unless it failed earlier. */
static bool ended_before_cause(const struct job *job, const struct worker *worker)
{
    bool victims = strcmp(job->reason.kind, reason_name(REASON_PEERS_LOST)) == 0;
    return worker->exit.wall_ms < job->cause_wall_ms || (victims && !worker->should_stop);
}

/* Reports about one failure arrive in any order: the earliest exit is its cause. */
static void revise_cause(struct step *step, struct job *job, const struct worker *worker)
{
    bool goes_on = job->state == JOB_RESTARTING || job->state == JOB_REFORMING;
    bool open = goes_on || (job->state == JOB_STOPPING && job->ending == JOB_FAILED);
    if (!open || !blames_worker(&job->reason) || !job->cause_wall_ms || worker_finished(worker) ||
        failure_distance(worker) > 0 || budget_ended_by_us(step, job, worker) ||
        worker->born > job->charged_generation || !ended_before_cause(job, worker))
        return;
    bool victims = strcmp(job->reason.kind, reason_name(REASON_PEERS_LOST)) == 0;
    struct reason reason;
    failure_describe(job, worker, &reason);
    if (strcmp(job->reason.kind, reason_name(REASON_CRASH_LOOP)) == 0)
        budget_explain(&reason, REASON_CRASH_LOOP, job);
    else if (strcmp(job->reason.kind, reason_name(REASON_RESTART_BUDGET)) == 0)
        budget_explain(&reason, REASON_RESTART_BUDGET, job);
    job->cause_wall_ms = worker->exit.wall_ms;
    job->exit_code = worker->exit.signal ? 128 + worker->exit.signal : worker->exit.code;
    if (goes_on && victims && budget_ends(job, &worker->exit, &reason))
        job_stop(step, job, JOB_FAILED, &reason);
    else
        job_set_reason(step, job, &reason);
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
    describe_end(step, job, worker, &reason);
    if (worker->leaving && !any_worker_leaves(job) && job->state != JOB_PREEMPTING)
        job->beneficiary[0] = 0;
    struct record *record = step_record(step, "worker_exited", job, worker->node, &reason);
    if (!worker_finished(worker) && !worker->should_stop)
        reason_output(&record->reason, worker->exit.last_output);
    if (worker_finished(worker))
        job->progress_at_ms = step->now_ms;
    step_reassign_node(step, worker->node);
    step_settle(step, job);
    step->wants_pass = true;
    revise_cause(step, job, worker);
    budget_note_exit(step, job, worker);
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
    step_reassign_node(step, worker->node);
    step_store(step, job);
}

static int exit_code_of(const struct job *job, enum job_state ending)
{
    enum { CANCELLED_CODE = 130 }; /* as a shell reports Ctrl-C */
    if (ending == JOB_SUCCEEDED)
        return 0;
    if (ending == JOB_CANCELLED)
        return CANCELLED_CODE;
    return job->exit_code ? job->exit_code : 1;
}

void job_end(struct step *step, struct job *job)
{
    struct reason reason = job->reason;
    enum job_state ending = job->ending;
    job->exit_code = exit_code_of(job, ending);
    job_set_state(step, job, ending, &reason);
    step->wants_pass = true;
}

void job_stop(struct step *step, struct job *job, enum job_state ending,
              const struct reason *reason)
{
    job->ending = ending;
    for (int i = 0; i < job->workers_count; i++)
        worker_stop(step, job, &job->workers[i]);
    group_clear(step->cluster, job, &job->forming);
    bool idle = !job_living_workers(job);
    if (idle &&
        (job->state == JOB_QUEUED || (ending == JOB_SUCCEEDED && job->state != JOB_RESTARTING))) {
        job->reason = *reason;
        job_end(step, job);
        return;
    }
    job->stop_deadline_ms = step->now_ms + job->spec->grace_ms + STOP_SLACK_MS;
    job->kill_due_ms = step->now_ms + job->spec->grace_ms;
    job_set_state(step, job, JOB_STOPPING, reason);
}
