#include "coordinator/model/checkpoint.h"

#include "coordinator/model/job.h"

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
