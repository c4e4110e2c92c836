#include "coordinator/core/stall_watch.h"

#include <inttypes.h>

#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/stall.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

/* A rank that loads a checkpoint before the first step of a generation gets more time. */
static int64_t stall_limit_ms(const struct job *job)
{
    int64_t steps_ms = job->ledger.typical_step_ms * LEDGER_HANG_STEPS;
    bool stepped = job->stepped_at_ms > 0 && job->stepped_at_ms >= job->current.since_ms;
    int64_t least_ms = stepped ? STALL_MIN_MS : LEDGER_HANG_MIN_MS;
    return steps_ms > least_ms ? steps_ms : least_ms;
}

static bool is_hung(const struct step *step, const struct job *job)
{
    if (job->step > job->ledger.step) /* a step of this moment, which the ledger gets later */
        return false;
    return job->ledger.hangs || step->now_ms >= ledger_hangs_at_ms(&job->ledger);
}

/* After a restart of the coordinator waits are unknown until each rank has reported. */
static bool all_reported(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (worker_living(&job->workers[i]) && !job->workers[i].spare && !job->workers[i].stamp)
            return false;
    return true;
}

/* A rank that waits has reported where, or its agent has found its stacks already. */
static bool all_wait(const struct job *job)
{
    for (int rank = 0; rank < job->current.world; rank++) {
        const struct worker *worker = job_worker(job, job->current.members[rank]);
        if (worker_living(worker) && worker->wait.waited_ms <= 0)
            return false;
    }
    return true;
}

static void begin_stall(struct step *step, struct job *job, const struct reason *reason,
                        int64_t for_ms)
{
    job->stalled_wall_ms = step->wall_ms - for_ms;
    step_record(step, "stalled", job, reason->node, reason);
    step_store(step, job);
    if (!all_wait(job))
        step_request_stacks(step, job);
}

void stall_end(struct step *step, struct job *job)
{
    struct reason reason;
    int64_t still_ms = step->wall_ms - job->stalled_wall_ms;
    if (!job->stalled_wall_ms)
        return;
    reason_set(&reason, REASON_STALL_OVER, "no step completed for %" PRId64 " s",
               still_ms > 0 ? still_ms / 1000 : 0);
    job->stalled_wall_ms = 0;
    job->went_on_at_ms = step->now_ms;
    step_record(step, "stall_over", job, NULL, &reason);
    step_store(step, job);
}

/* A rank reports its wait now and then: after a stall it still seems to wait as it did before. */
static bool is_too_long(const struct step *step, const struct job *job, int64_t waited_ms)
{
    bool after = !job->went_on_at_ms || step->now_ms - waited_ms >= job->went_on_at_ms;
    return after && waited_ms >= stall_limit_ms(job);
}

void stall_settle(struct step *step, struct job *job)
{
    struct reason reason;
    int64_t waited_ms = 0;
    if (job->state != JOB_RUNNING)
        return;
    bool waits = stall_in_collective(job, &reason, &waited_ms), hung = is_hung(step, job);
    if (hung && !job->ledger.hangs) /* the stored ledger records it too */
        step_store(step, job);
    if (job->stalled_wall_ms && !waits && !hung && all_reported(job))
        stall_end(step, job);
    if (job->stalled_wall_ms || !(hung || (waits && is_too_long(step, job, waited_ms))))
        return;
    if (!waits)
        stall_without_wait(job, &reason);
    begin_stall(step, job, &reason, waits ? waited_ms : step->now_ms - job->ledger.sign_ms);
}
