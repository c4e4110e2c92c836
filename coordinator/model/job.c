#include "coordinator/model/job.h"

#include <stdlib.h>

void job_free(struct job *job)
{
    if (!job)
        return;
    spec_release(job->spec);
    group_fini(&job->current);
    group_fini(&job->forming);
    free(job->workers);
    free(job->checkpoints);
    free(job);
}

struct worker *job_worker(const struct job *job, uint64_t uid)
{
    int low = 0, high = job->workers_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (job->workers[middle].uid < uid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < job->workers_count && job->workers[low].uid == uid ? &job->workers[low] : NULL;
}

const struct checkpoint *job_last_checkpoint(const struct job *job)
{
    return job->checkpoints_count > 0 ? &job->checkpoints[job->checkpoints_count - 1] : NULL;
}

static bool is_superseded(const struct job *job, int at)
{
    for (int i = at + 1; i < job->checkpoints_count; i++)
        if (job->checkpoints[i].step <= job->checkpoints[at].step)
            return true;
    return false;
}

bool job_checkpoint_spare(const struct job *job, int at)
{
    int keep = job->spec->checkpoint_keep, newer = 0;
    if (keep <= 0)
        return false;
    for (int i = at + 1; i < job->checkpoints_count; i++) {
        if (!is_superseded(job, i))
            newer++;
    }
    return newer >= keep || is_superseded(job, at);
}
