/* Giving way: elastic gangs give nodes back in place; whole gangs end with grace to save, and wait
 * in the queue again. */
#include "coordinator/scheduler/preempt.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/core/internal.h"

static void give_back(struct step *step, struct job *job, const char *node, const char *to)
{
    char why[64];
    (void)str_printf(why, sizeof why, "job %s waits for it", to);
    for (int i = 0; i < job->workers_count; i++) {
        struct worker *worker = &job->workers[i];
        if (!worker_living(worker) || strcmp(worker->node, node) != 0)
            continue;
        if (worker->spare) {
            spare_end(step, job, worker, why);
            continue;
        }
        worker->leaving = true;
        (void)str_copy(job->gives_to, sizeof job->gives_to, to);
    }
    step_settle(step, job);
}

/* Its current group stays as it is: what it saves now still counts. */
static void end_with_grace(struct step *step, struct job *job, const struct reason *reason)
{
    for (int i = 0; i < job->workers_count; i++)
        worker_stop(step, job, &job->workers[i]);
    step_desired_group(step, job, &job->forming);
    group_clear(step->cluster, job, &job->forming);
    job->stop_deadline_ms = step->now_ms + STOP_GRACE_MS + STOP_SLACK_MS;
    job_set_state(step, job, JOB_PREEMPTING, reason);
}

static void give_way(struct step *step, const struct concession *given, const struct job *to)
{
    struct reason reason;
    struct job *job = given->job;
    reason_set(&reason, REASON_PREEMPTED, "gives way to job %s (%s), which %s", to->id,
               to->spec->name,
               given->reclaimed ? "its tenant is guaranteed" : "has a higher priority");
    reason_hint(&reason, given->returns
                             ? "it goes on from its last checkpoint at once, with fewer nodes"
                             : "it goes on from its last checkpoint when there is room");
    (void)str_copy(job->gives_to, sizeof job->gives_to, to->id);
    end_with_grace(step, job, &reason);
}

void preempt_all(struct step *step)
{
    struct reason reason;
    reason_set(&reason, REASON_HALTED, "the cluster is being stopped");
    reason_hint(&reason, "it goes on from its last checkpoint when the cluster is up again");
    cluster_halt(step->cluster);
    for (struct job *job = cluster_first_begun_job(step->cluster); job;
         job = cluster_next_begun_job(step->cluster, job))
        if (job->state == JOB_STARTING || job->state == JOB_RUNNING || job->state == JOB_REFORMING)
            end_with_grace(step, job, &reason);
}

void preempt_perform(struct step *step, const struct job *job, const struct concession *given,
                     int count)
{
    for (int i = 0; i < count; i++) {
        if (given[i].moves) { /* one at a time: each finds its new place as it was planned */
            given[i].job->moved_at_ms = step->now_ms;
            give_back(step, given[i].job, given[i].node->name, job->id);
            return;
        }
        if (given[i].node)
            give_back(step, given[i].job, given[i].node->name, job->id);
        else
            give_way(step, &given[i], job);
    }
}

/* Programs that save when they are told to stop often exit with 0: only the step count tells that
 * one has finished. */
static bool has_finished(const struct job *job)
{
    return job->total_steps > 0 && job->step >= job->total_steps &&
           group_all_finished(job, &job->current);
}

void preempt_settle(struct step *step, struct job *job)
{
    struct reason reason = job->reason;
    if (job_living(job) > 0) {
        if (job->stop_deadline_ms && step->now_ms >= job->stop_deadline_ms)
            job->stop_deadline_ms = 0;
        return;
    }
    job->stop_deadline_ms = 0;
    memcpy(job->preempted_by, job->gives_to, sizeof job->preempted_by);
    job->preempted_wall_ms = step->wall_ms;
    job->gives_to[0] = 0;
    if (has_finished(job)) {
        group_finished_reason(&job->current, &reason);
        job_stop(step, job, JOB_SUCCEEDED, &reason);
        return;
    }
    group_clear(step->cluster, job, &job->current);
    job->backoff_until_ms = step->now_ms;
    job_set_state(step, job, JOB_QUEUED, &reason);
    step->place = true;
}
