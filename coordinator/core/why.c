#include "coordinator/core/internal.h"
#include "coordinator/scheduler/explain.h"

int core_why(const struct cluster *cluster, const struct job *job, struct reason *ret, int max)
{
    if (max <= 0)
        return 0;
    bool places =
        job->state == JOB_QUEUED || (job->state == JOB_RESTARTING && job_living(job) == 0);
    int count = 0;
    if (places) {
        struct view view;
        struct placement placement = {0};
        struct request request = {.spec = job->spec,
                                  .nodes_min = job->spec->nodes_min,
                                  .nodes_max = job->spec->nodes_max};
        view_init(&view, cluster);
        for (const struct job *other = cluster_first_waiting(cluster); other && other != job;
             other = cluster_next_waiting(cluster, other))
            scheduler_hold(&view, other);
        if (!scheduler_place(&view, &request, &placement, &ret[0]))
            count = explain_all(&view, &request, ret, max);
        placement_fini(&placement);
        view_fini(&view);
    }
    if (count == 0)
        ret[count++] = job->reason;
    return count;
}
