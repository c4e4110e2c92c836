#include "coordinator/core/budget.h"

#include <signal.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/base/str.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/limits.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/tenant.h"

enum { JITTER_PARTS = 10 }; /* up to a tenth is added to a backoff */

bool budget_counts_steps(const struct job *job)
{
    return job->current.joined || job->step > 0 || job->progress_step > 0 ||
           job->ledger.best_step > 0;
}

static bool made_progress(const struct step *step, const struct job *job)
{
    if (budget_counts_steps(job))
        return job->step > job->progress_step;
    return job->running_wall_ms && step->wall_ms - job->running_wall_ms >= REFUND_AFTER_MS;
}

static void set_backoff(struct step *step, struct job *job)
{
    int64_t delay_ms = 0;
    if (job->restarts_without_progress > 1) {
        delay_ms = job->spec->backoff_min_ms;
        for (int i = 2; i < job->restarts_without_progress && delay_ms < job->spec->backoff_max_ms;
             i++)
            delay_ms *= 2;
        if (delay_ms > job->spec->backoff_max_ms)
            delay_ms = job->spec->backoff_max_ms;
        delay_ms += rng_between(cluster_rng(step->cluster), 0, delay_ms / JITTER_PARTS);
    }
    job->backoff_until_ms = step->now_ms + delay_ms;
}

void budget_explain(struct reason *reason, enum reason_kind kind, const struct job *job)
{
    enum { CAUSE_MAX = 380 };
    size_t used = strnlen(reason->text, CAUSE_MAX);
    char *end = reason->text + used;
    size_t left = sizeof(reason->text) - used;
    bool steps = budget_counts_steps(job);
    int max = job->spec->restart_max;
    (void)str_copy(reason->kind, sizeof(reason->kind), reason_name(kind));
    if (kind == REASON_CRASH_LOOP && steps)
        (void)str_printf(end, left, " (%d times in a row without a new step)", job->same_cause);
    else if (kind == REASON_CRASH_LOOP)
        (void)str_printf(end, left, " (%d times in a row, each within %d s of its start)",
                         job->same_cause, CRASH_SOON_MS / 1000);
    else if (steps)
        (void)str_printf(end, left, " (after %d restart%s without progress)", max, str_plural(max));
    else
        (void)str_printf(end, left, " (after %d restart%s, none of which ran for %d minutes)", max,
                         str_plural(max), REFUND_AFTER_MS / 60000);
}

static void record_cause(struct step *step, struct job *job, const struct failure *failure)
{
    bool same = strcmp(job->last_cause, failure->cause) == 0;
    bool soon = budget_counts_steps(job) || failure->lived_ms <= CRASH_SOON_MS;
    if (made_progress(step, job)) {
        job->progress_step = job->step;
        job->restarts_without_progress = job->same_cause = 0;
    }
    job->same_cause = !soon ? 0 : same ? job->same_cause + 1 : 1;
    (void)str_copy(job->last_cause, sizeof(job->last_cause), failure->cause);
    job->charged_generation = job->next_generation - 1;
    job->cause_wall_ms = failure->wall_ms;
    job->exit_code = failure->exit_code;
    job->restarts_without_progress++;
    job->may_be_excused = false;
    job->excused = failure->excused;
}

static void count_restart(struct step *step, struct job *job)
{
    job->restarts++;
    job->tenant->restarts++;
    set_backoff(step, job);
}

static bool is_spent(const struct job *job)
{
    return job->restarts_without_progress > job->spec->restart_max;
}

static bool is_crash_loop(const struct job *job)
{
    return job->spec->stop_without_progress && job->same_cause >= CRASH_LOOP_LIMIT;
}

/* The job ends because of its program's own failure, unless that turns out to be a victim's. */
static void expect_excuse(struct job *job, struct reason *reason)
{
    job->may_be_excused = true;
    if (strcmp(reason->kind, reason_name(REASON_WORKER_FAILED)) == 0)
        reason_hint(reason,
                    "`muster logs %s --rank %d` has its last words; --on-failure retry would have "
                    "it tried again",
                    job->id, reason->rank);
}

bool budget_charge(struct step *step, struct job *job, struct failure *failure)
{
    if (!failure->charged)
        return true;
    record_cause(step, job, failure);
    if (job->spec->restart_max == 0 || failure->hopeless)
        return false;
    if (failure->own && !failure->excused && job->spec->stop_on_failure) {
        expect_excuse(job, &failure->reason);
        return false;
    }
    if (is_crash_loop(job) || is_spent(job))
        job->may_be_excused = failure->own;
    if (is_crash_loop(job)) {
        budget_explain(&failure->reason, REASON_CRASH_LOOP, job);
        return false;
    }
    if (is_spent(job)) {
        budget_explain(&failure->reason, REASON_RESTART_BUDGET, job);
        return false;
    }
    count_restart(step, job);
    return true;
}

bool budget_ends(struct job *job, const struct exit_info *exit, struct reason *reason)
{
    if (!job->spec->stop_on_failure || job->excused || exit_is_external(exit))
        return false;
    expect_excuse(job, reason);
    return true;
}

bool budget_ended_by_us(const struct step *step, const struct job *job, const struct worker *worker)
{
    bool overdue = job->state == JOB_STOPPING && step->now_ms >= job->kill_due_ms;
    return worker->should_stop && !worker->exit.lost &&
           (worker->exit.signal == SIGTERM || (worker->exit.signal == SIGKILL && overdue));
}

/* The job restarts and is charged for it, so not for a drain or a new size. */
static bool is_charged_restart(const struct job *job)
{
    return job->state == JOB_RESTARTING && job->current.generation &&
           job->charged_generation >= job->current.generation;
}

/* The charged failure follows from a lost node, which costs nothing. Refund it, once per charge. */
static void refund_charge(struct step *step, struct job *job)
{
    if (!job->last_cause[0])
        return;
    job->last_cause[0] = 0;
    if (job->restarts_without_progress > 0)
        job->restarts_without_progress--;
    if (job->same_cause > 0)
        job->same_cause--;
    job->backoff_until_ms = step->now_ms;
}

void budget_note_exit(struct step *step, struct job *job, const struct worker *worker)
{
    const struct exit_info *exit = &worker->exit;
    bool stops = job->state == JOB_STOPPING && job->may_be_excused;
    bool goes_on = job->state == JOB_RESTARTING || job->state == JOB_REFORMING;
    bool asked = worker->should_stop && !exit->lost && exit->signal != SIGKILL;
    bool victim = exit->lost && (stops || is_charged_restart(job));
    if ((!stops && !goes_on) || worker_finished(worker) || asked || exit->code == EXIT_PEER_LOST ||
        budget_ended_by_us(step, job, worker) || !exit_is_external(exit))
        return;
    if (stops && !victim && (is_spent(job) || is_crash_loop(job)))
        return;
    struct reason reason;
    job->excused = true;
    if (victim)
        refund_charge(step, job);
    if (!stops && !victim)
        return;
    reason_set(&reason, exit->lost ? REASON_WORKER_LOST : REASON_WORKER_FAILED, "rank %d on %s: %s",
               worker->rank, worker->node, exit->text);
    reason.rank = worker->rank;
    (void)str_copy(reason.node, sizeof(reason.node), worker->node);
    job_set_reason(step, job, &reason);
}

bool budget_forgive(struct step *step, struct job *job)
{
    bool excused = job->may_be_excused && job->excused;
    if (job->ending != JOB_FAILED || !excused || job->cancel_requested || is_spent(job))
        return false;
    job->may_be_excused = job->excused = false;
    count_restart(step, job);
    return true;
}
