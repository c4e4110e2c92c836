#include "coordinator/core/restart.h"

#include "common/base/assert.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/budget.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/job_size.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/move.h"
#include "coordinator/core/reform.h"
#include "coordinator/core/runtime.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/gang.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

/* Its current group stays until all have ended, because a checkpoint saved now still counts. */
void restart_again(struct step *step, struct job *job, const struct reason *reason)
{
    step_reassign_group(step, job, &job->current);
    step_reassign_group(step, job, &job->forming);
    for (int i = 0; i < job->workers_count; i++)
        worker_stop(step, job, &job->workers[i]);
    group_clear(step->cluster, job, &job->forming);
    step_record(step, "restart", job, reason->node, reason);
    job_set_state(step, job, JOB_RESTARTING, reason);
    step->wants_pass = true;
}

static void note_grow_failure(struct step *step, struct job *job)
{
    int64_t delay_ms = GROW_BACKOFF_MS;
    for (int i = 0; i < job->grow_failures && delay_ms < GROW_BACKOFF_MAX_MS; i++)
        delay_ms *= 2;
    job->grow_failures++;
    job->grow_after_ms =
        step->now_ms + (delay_ms < GROW_BACKOFF_MAX_MS ? delay_ms : GROW_BACKOFF_MAX_MS);
}

/* End the new workers; the gang trains on as it is. */
static void drop_forming(struct step *step, struct job *job)
{
    never(job->forming.open);
    step_reassign_group(step, job, &job->forming);
    for (int rank = 0; rank < job->forming.world; rank++) {
        uint64_t uid = job->forming.members[rank];
        int old_rank = group_rank_of(&job->current, uid);
        struct worker *worker = job_worker(job, uid);
        if (old_rank < 0) {
            worker_stop(step, job, worker);
            continue;
        }
        worker->rank = old_rank;
        worker->generation = job->current.generation;
    }
    group_clear(step->cluster, job, &job->forming);
    step_settle(step, job);
}

static void abandon_growth(struct step *step, struct job *job, const struct reason *reason)
{
    struct reason why;
    bool moves = job_is_moving(job);
    drop_forming(step, job);
    if (moves)
        move_failed(step, job);
    else
        note_grow_failure(step, job);
    reason_set(&why, REASON_GROW_FAILED, "could not %s: %.400s", moves ? "move yet" : "grow",
               reason->text);
    step_record(step, "growth", job, reason->node, &why);
}

void restart_stay(struct step *step, struct job *job)
{
    struct reason reason;
    drop_forming(step, job);
    move_over(job);
    reason_set(&reason, REASON_MOVED, "does not move: its node is being emptied no longer");
    step_record(step, "growth", job, NULL, &reason);
}

void restart_recover(struct step *step, struct job *job, struct failure *failure)
{
    if (failure->growth_only && !job->forming.open) {
        abandon_growth(step, job, &failure->reason);
        return;
    }
    if (move_begin(step, job, failure))
        return;
    if (job->current.generation)
        job->current.broken = true;
    if (!job->broken_at_ms)
        job->broken_at_ms = step->now_ms;
    if (failure->growth_only) {
        note_grow_failure(step, job);
        failure->charged = false;
    }
    if (!budget_charge(step, job, failure)) {
        job_stop(step, job, JOB_FAILED, &failure->reason);
        return;
    }
    if (!failure->whole && reform(step, job, failure))
        return;
    if (failure->lost && job->spec->restart_max == 0) {
        reason_hint(&failure->reason, "restart: off keeps it from being run again");
        job_stop(step, job, JOB_FAILED, &failure->reason);
        return;
    }
    restart_again(step, job, &failure->reason);
}

static bool is_ready(const struct job *job, int64_t now_ms)
{
    return !job_living_workers(job) && job->backoff_until_ms <= now_ms;
}

void restart_settle(struct step *step, struct job *job)
{
    if (job->current.generation && !job_living_workers(job)) {
        group_clear(step->cluster, job, &job->current);
        job_size_apply(step, job);
        step_store(step, job);
    }
    if (!job_living_workers(job))
        runtime_pause(step, job);
    if (is_ready(job, step->now_ms))
        step->wants_pass = true;
}
