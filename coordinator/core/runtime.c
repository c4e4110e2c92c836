#include "coordinator/core/runtime.h"

#include "coordinator/core/dirty_set.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/reason.h"

static int64_t counted_ms(const struct job *job, int64_t wall_ms)
{
    int64_t since_ms = job->runtime_counts_wall_ms ? wall_ms - job->runtime_counts_wall_ms : 0;
    return job->runtime_used_ms + (since_ms > 0 ? since_ms : 0);
}

static void set_deadline(struct job *job, int64_t now_ms, int64_t used_ms)
{
    int64_t left_ms = job->spec->max_runtime_ms - used_ms;
    job->runtime_deadline_ms = now_ms + (left_ms > 0 ? left_ms : 1); /* 0 would mean none */
}

void runtime_count(struct step *step, struct job *job)
{
    if (!job->spec->max_runtime_ms || job->runtime_deadline_ms || !job->started_wall_ms)
        return;
    job->runtime_counts_wall_ms = step->wall_ms;
    set_deadline(job, step->now_ms, job->runtime_used_ms);
}

/* The rest is kept by the monotonic clock, which does not jump. */
void runtime_pause(struct step *step, struct job *job)
{
    if (!job->runtime_deadline_ms)
        return;
    int64_t left_ms = job->runtime_deadline_ms - step->now_ms;
    job->runtime_used_ms = job->spec->max_runtime_ms - (left_ms > 0 ? left_ms : 0);
    job->runtime_deadline_ms = job->runtime_counts_wall_ms = 0;
    step_store(step, job);
}

/* The deadline was set by the clock of an earlier life; it also counted while the coordinator was
 * down. */
void runtime_restored(struct step *step, struct job *job)
{
    if (!job->runtime_deadline_ms)
        return;
    if (!job->runtime_counts_wall_ms) /* stored by a version that counted from the first start */
        job->runtime_counts_wall_ms = job->started_wall_ms;
    set_deadline(job, step->now_ms, counted_ms(job, step->wall_ms));
    if (job->state == JOB_QUEUED) /* stored by a version that counted there too */
        runtime_pause(step, job);
}

void runtime_settle(struct step *step, struct job *job)
{
    struct reason reason;
    if (!job->runtime_deadline_ms || step->now_ms < job->runtime_deadline_ms ||
        job->state == JOB_STOPPING || job_state_ended(job->state))
        return;
    reason_set(&reason, REASON_MAX_RUNTIME, "ran longer than its max_runtime");
    reason_hint(&reason, "raise max_runtime; it can go on from its last checkpoint");
    job_stop(step, job, JOB_FAILED, &reason);
}
