/* How long a group may take for what it has to do. Pure. */
#include "coordinator/core/internal.h"

static bool is_unjoined(const struct worker *worker, uint64_t generation)
{
    return worker_living(worker) && worker->joining != generation && worker->joined != generation;
}

/* Someone has yet to start, load and join for the first time: that takes longer. */
static bool has_fresh_member(const struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (worker->joined == 0 && worker_living(worker))
            return true;
    }
    return false;
}

int64_t group_join_deadline(const struct job *job, const struct group *group)
{
    bool aware = false, unjoined = false, held = false;
    if (group->joined)
        return INT64_MAX;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        aware |= worker->aware;
        held |= worker->held;
        unjoined |= is_unjoined(worker, group->generation) || worker_finished(worker);
    }
    if (!unjoined || held || (group->published && !aware))
        return INT64_MAX;
    return group->since_ms + (has_fresh_member(job, group) ? START_TIMEOUT_MS : JOIN_TIMEOUT_MS);
}

int64_t group_patience_ends(const struct job *job)
{
    const struct group *group = &job->current;
    if (group->broken) {
        bool earlier = job->broken_at_ms < group->since_ms; /* an earlier break, or we were away */
        return (earlier ? group->since_ms : job->broken_at_ms) + BROKEN_PATIENCE_MS;
    }
    for (int rank = 0; group->joined && rank < group->world; rank++)
        if (worker_finished(job_worker(job, group->members[rank])))
            return job->progress_at_ms + FINISH_PATIENCE_MS;
    return INT64_MAX;
}
