#include "coordinator/core/internal.h"
#include "coordinator/scheduler/explain.h"
#include "coordinator/scheduler/pass.h"

/* What the next pass would say to it. */
static int explain_place(const struct cluster *cluster, const struct job *job, struct reason *ret,
                         int max)
{
    struct pass pass;
    struct verdict verdict = {0};
    int count = 0;
    pass_init(&pass, cluster, cluster_now(cluster));
    struct job *next;
    while ((next = pass_next(&pass)) && next != job) {
        pass_try(&pass, next, &verdict);
        placement_fini(&verdict.placement);
    }
    struct request request = {.spec = job->spec,
                              .nodes_min = job->spec->nodes_min,
                              .nodes_max = job->spec->nodes_max};
    if (next) {
        pass_try(&pass, job, &verdict);
        if (!verdict.placed)
            count = explain_all(&pass.view, &request, ret, max);
        placement_fini(&verdict.placement);
    }
    pass_fini(&pass);
    return count;
}

int core_why(const struct cluster *cluster, const struct job *job, struct reason *ret, int max)
{
    if (max <= 0)
        return 0;
    bool places =
        job->state == JOB_QUEUED || (job->state == JOB_RESTARTING && job_living(job) == 0);
    int count = places ? explain_place(cluster, job, ret, max) : 0;
    if (count == 0)
        ret[count++] = job->reason;
    return count;
}
