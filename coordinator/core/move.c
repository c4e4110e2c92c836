#include "coordinator/core/move.h"

#include "coordinator/core/limits.h"
#include "coordinator/core/reform.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/query.h"

bool move_is_void(const struct step *step, const struct job *job)
{
    if (!job_is_moving(job))
        return false;
    struct worker *worker;
    for (int rank = 0; (worker = job_next_left(job, &rank)); rank++) {
        const struct node *node = cluster_node(step->cluster, worker->node);
        if (worker_living(worker) && node && !node->want_drain)
            return true;
    }
    return false;
}

static int64_t ends_at(const struct job *job)
{
    return job->moves_since_ms + MOVE_PATIENCE_MS;
}

bool move_is_overdue(const struct job *job, int64_t now_ms)
{
    return job_is_moving(job) && now_ms >= ends_at(job);
}

bool move_begin(struct step *step, struct job *job, const struct failure *failure)
{
    if (!failure->drained || job->state != JOB_RUNNING || job->current.broken)
        return false;
    if (!job->moves_since_ms)
        job->moves_since_ms = step->now_ms;
    if (step->now_ms >= ends_at(job))
        return false;
    if (job->move_again_ms > step->now_ms)
        return true;
    job->move_again_ms = 0;
    return reform_ahead(step, job, failure);
}

void move_failed(struct step *step, struct job *job)
{
    job->move_again_ms = step->now_ms + MOVE_RETRY_MS;
}

void move_leave(struct step *step, struct job *job, struct reason *ret)
{
    struct worker *worker;
    const struct node *node = NULL;
    for (int rank = 0; (worker = job_next_left(job, &rank)); rank++) {
        node = cluster_node(step->cluster, worker->node);
        worker_stop(step, job, worker);
    }
    failure_describe_drain(node, ret);
    job->current.broken = true;
    if (!job->broken_at_ms)
        job->broken_at_ms = step->now_ms;
}

void move_over(struct job *job)
{
    job->moves_since_ms = job->move_again_ms = 0;
}

void move_resumed(struct job *job, int64_t now_ms)
{
    if (job->moves_since_ms || job_is_moving(job))
        job->moves_since_ms = now_ms;
    job->move_again_ms = 0;
}

int64_t move_wake_at(const struct job *job)
{
    if (!job->moves_since_ms || job->forming.open)
        return INT64_MAX;
    return job->move_again_ms ? job->move_again_ms : ends_at(job);
}
