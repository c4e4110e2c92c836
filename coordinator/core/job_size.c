#include "coordinator/core/job_size.h"

void job_size_apply(struct step *step, struct job *job)
{
    int min = job->nodes_min, max = job->nodes_max, has = job->current.nodes;
    if (!max)
        return;
    if (has > 0 && has < min)
        min = has;
    if (has > max)
        max = has;
    if (job->forming.generation && job->forming.nodes < min)
        min = job->forming.nodes;
    if (job->forming.generation && job->forming.nodes > max)
        max = job->forming.nodes;
    if (job->spec->nodes_min == min && job->spec->nodes_max == max)
        return;
    struct spec *resized = spec_resize(job->spec, min, max);
    spec_release(job->spec);
    job->spec = resized;
    cluster_job_moved(step->cluster, job, job->waiting);
}
