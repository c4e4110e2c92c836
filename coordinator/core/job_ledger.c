#include "coordinator/core/job_ledger.h"

static enum ledger_phase stopping_phase(const struct job *job)
{
    switch (job->ending) {
    case JOB_SUCCEEDED: /* some ranks finished, the others will */
        return LEDGER_PRODUCTIVE;
    case JOB_CANCELLED:
        return LEDGER_CHECKPOINT;
    case JOB_QUEUED:
    case JOB_STARTING:
    case JOB_RUNNING:
    case JOB_REFORMING:
    case JOB_RESTARTING:
    case JOB_PREEMPTING:
    case JOB_STOPPING:
    case JOB_FAILED:
        break;
    }
    return LEDGER_RECOVERY;
}

static enum ledger_phase running_phase(const struct job *job)
{
    /* Without reported steps the end of a recovery is unknown. */
    if (job->broken_at_ms && job->ledger.best_step)
        return LEDGER_RECOVERY;
    return job->step < job->ledger.best_step ? LEDGER_REWORK : LEDGER_PRODUCTIVE;
}

static enum ledger_phase phase_of(const struct job *job)
{
    switch (job->state) {
    case JOB_QUEUED:
        return LEDGER_QUEUE;
    case JOB_STARTING:
    case JOB_REFORMING:
        return job->broken_at_ms ? LEDGER_RECOVERY : LEDGER_START;
    case JOB_RUNNING:
        return running_phase(job);
    case JOB_RESTARTING:
        return job->broken_at_ms ? LEDGER_RECOVERY : LEDGER_QUEUE;
    case JOB_PREEMPTING:
        return LEDGER_CHECKPOINT;
    case JOB_STOPPING:
        return stopping_phase(job);
    case JOB_SUCCEEDED:
    case JOB_FAILED:
    case JOB_CANCELLED:
        break;
    }
    return job->ledger.phase;
}

bool job_ledger_follow(struct job *job, int64_t now_ms)
{
    struct ledger *ledger = &job->ledger;
    if (!ledger->open || ledger->closed)
        return false;
    ledger_charge(ledger, now_ms);
    ledger_step(ledger, job->step, now_ms);
    enum ledger_phase phase = phase_of(job);
    bool moved = phase != ledger->phase || job_state_ended(job->state);
    ledger_enter(ledger, phase, now_ms);
    if (job_state_ended(job->state))
        ledger_close(ledger);
    return moved;
}

void job_ledger_started(struct job *job, int64_t now_ms, int64_t wall_ms)
{
    ledger_charge(&job->ledger, now_ms);
    ledger_started(&job->ledger, wall_ms - job->running_wall_ms);
}

void job_ledger_restored(struct job *job, int64_t now_ms, int64_t wall_ms)
{
    struct ledger *ledger = &job->ledger;
    if (!ledger->open) { /* stored by a version without a ledger: an estimate */
        int64_t age_ms = wall_ms - job->submitted_wall_ms;
        int64_t queued_ms =
            job->started_wall_ms ? job->started_wall_ms - job->submitted_wall_ms : 0;
        ledger_begin(ledger, age_ms > 0 ? now_ms - age_ms : now_ms);
        if (queued_ms > 0)
            ledger_charge(ledger, ledger->begun_ms + queued_ms);
        ledger_enter(ledger, phase_of(job), now_ms);
    }
    if (ledger->at_ms > now_ms)
        ledger_shift(ledger, now_ms - ledger->at_ms);
    if (!job->stalled_wall_ms) /* our absence does not excuse a job that was stalled before it */
        ledger->sign_ms = now_ms;
}
