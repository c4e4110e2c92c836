#include "coordinator/core/job_state.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/job_size.h"
#include "coordinator/core/stall_watch.h"
#include "coordinator/model/query.h"

#define BIT(state) (1u << JOB_##state)
static const unsigned allowed[] = {
    [JOB_QUEUED] = BIT(STARTING) | BIT(FAILED) | BIT(CANCELLED),
    [JOB_STARTING] =
        BIT(RUNNING) | BIT(RESTARTING) | BIT(PREEMPTING) | BIT(STOPPING) | BIT(SUCCEEDED),
    [JOB_RUNNING] =
        BIT(REFORMING) | BIT(RESTARTING) | BIT(PREEMPTING) | BIT(STOPPING) | BIT(SUCCEEDED),
    [JOB_REFORMING] =
        BIT(RUNNING) | BIT(RESTARTING) | BIT(PREEMPTING) | BIT(STOPPING) | BIT(SUCCEEDED),
    [JOB_RESTARTING] = BIT(STARTING) | BIT(STOPPING),
    [JOB_PREEMPTING] = BIT(QUEUED) | BIT(STOPPING) | BIT(SUCCEEDED),
    [JOB_STOPPING] = BIT(SUCCEEDED) | BIT(FAILED) | BIT(CANCELLED) | BIT(RESTARTING),
    [JOB_SUCCEEDED] = 0,
    [JOB_FAILED] = 0,
    [JOB_CANCELLED] = 0,
};
#undef BIT

void job_set_state(struct step *step, struct job *job, enum job_state state,
                   const struct reason *reason)
{
    insist(allowed[job->state] >> state & 1);
    struct record *record = step_record(step, "job_state", job, reason->node, reason);
    (void)str_copy(record->from, sizeof(record->from), job_state_name(job->state));
    (void)str_copy(record->to, sizeof(record->to), job_state_name(state));
    job->state = state;
    job->reason = *reason;
    if (state != JOB_RUNNING)
        stall_end(step, job);
    if (job_state_ended(state))
        job->ended_wall_ms = step->wall_ms;
    cluster_job_moved(step->cluster, job, job_state_waits(state));
    if (job_state_waits(state))
        job_size_apply(step, job);
    step_settle(step, job);
}

void job_set_reason(struct step *step, struct job *job, const struct reason *reason)
{
    bool same_kind = strcmp(job->reason.kind, reason->kind) == 0;
    if (same_kind && strcmp(job->reason.text, reason->text) == 0)
        return;
    job->reason = *reason;
    if (same_kind) /* the blocking jobs change often; only the kind must survive a restart */
        step_show(step, job);
    else
        step_store(step, job);
}
