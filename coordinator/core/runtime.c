#include "coordinator/core/runtime.h"

#include "common/base/parse.h"
#include "coordinator/core/answer.h"
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

int64_t runtime_signal_at_ms(const struct job *job)
{
    if (!job->spec->early_signal_ms || job->signal_wall_ms || !job->runtime_deadline_ms ||
        job->state != JOB_RUNNING)
        return 0;
    return job->runtime_deadline_ms - job->spec->early_signal_ms;
}

/* Agents compare the time with that of the answer before, and signal what runs. */
static void send_early_signal(struct step *step, struct job *job)
{
    char left[FORMAT_MAX];
    struct reason reason;
    int64_t left_ms = job->runtime_deadline_ms - step->now_ms;
    job->signal_wall_ms = step->wall_ms;
    reason_set(&reason, REASON_EARLY_SIGNAL, "%s sent %s before the time limit (max_runtime)",
               job_fields[JOB_FIELD_EARLY_SIGNAL].choices[job->spec->early_signal],
               format_duration_exact((left_ms + 999) / 1000 * 1000, left));
    step_record(step, reason.kind, job, "", &reason);
    step_reassign_group(step, job, &job->current);
    step_store(step, job);
}

void runtime_settle(struct step *step, struct job *job)
{
    struct reason reason;
    int64_t signal_at_ms = runtime_signal_at_ms(job);
    if (signal_at_ms && step->now_ms >= signal_at_ms && step->now_ms < job->runtime_deadline_ms)
        send_early_signal(step, job);
    if (!job->runtime_deadline_ms || step->now_ms < job->runtime_deadline_ms ||
        job->state == JOB_STOPPING || job_state_ended(job->state))
        return;
    reason_set(&reason, REASON_MAX_RUNTIME, "ran longer than its max_runtime");
    reason_hint(&reason, "raise max_runtime; it can go on from its last checkpoint");
    job_stop(step, job, JOB_FAILED, &reason);
}
