#include "coordinator/core/deadline.h"

#include "coordinator/core/limits.h"
#include "coordinator/model/query.h"

static bool has_asked(const struct group *group, const struct worker *worker)
{
    return worker_living(worker) &&
           (worker->joining == group->generation || worker->joined == group->generation);
}

/* Some members have finished and never join, and all others wait for them: replacing a rank that is
 * lost while the last ones leave is useless. */
static bool waits_in_vain(const struct job *job, const struct group *group)
{
    int finished = 0;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (worker_finished(worker))
            finished++;
        else if (!has_asked(group, worker))
            return false;
    }
    return finished > 0;
}

/* The time for a member that has not asked to join. A living process with a reporting agent joins
 * at its next boundary, however far that is, and restarting it gains nothing. If it were stuck, its
 * waiting peers would have named it. */
static int64_t time_to_join(const struct job *job, const struct group *group,
                            const struct worker *worker)
{
    if (worker_finished(worker) && waits_in_vain(job, group))
        return 0;
    if (worker->joined == 0)
        return START_TIMEOUT_MS;
    bool given_up = job->current.generation && worker->lost_in == job->current.generation;
    return given_up || worker_finished(worker) ? JOIN_TIMEOUT_MS : SURVIVOR_TIMEOUT_MS;
}

bool group_join_overdue(const struct job *job, const struct group *group,
                        const struct worker *worker, int64_t now_ms)
{
    return !has_asked(group, worker) && (worker_living(worker) || worker_finished(worker)) &&
           now_ms >= group->since_ms + time_to_join(job, group, worker);
}

int64_t group_join_deadline(const struct job *job, const struct group *group)
{
    bool aware = false, held = false;
    int64_t patience_ms = INT64_MAX;
    if (group->joined)
        return INT64_MAX;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        aware |= worker->aware;
        held |= worker->held;
        if (group_join_overdue(job, group, worker, INT64_MAX) &&
            time_to_join(job, group, worker) < patience_ms)
            patience_ms = time_to_join(job, group, worker);
    }
    if (patience_ms == INT64_MAX || held || (group->published && !aware))
        return INT64_MAX;
    return group->since_ms + patience_ms;
}

int64_t group_progress_deadline(const struct job *job)
{
    const struct group *group = &job->current;
    if (group->broken) {
        bool earlier = job->broken_at_ms < group->since_ms; /* an earlier break, or we were away */
        return (earlier ? group->since_ms : job->broken_at_ms) + BROKEN_TIMEOUT_MS;
    }
    for (int rank = 0; group->joined && rank < group->world; rank++)
        if (worker_finished(job_worker(job, group->members[rank])))
            return job->progress_at_ms + FINISH_TIMEOUT_MS;
    return INT64_MAX;
}
