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
