#include "coordinator/model/stop_reason.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

/* Its node is given to another job, or the job was scaled down. */
static void describe_given_back(const struct cluster *cluster, const struct job *job,
                                const struct worker *worker, char *ret)
{
    size_t size = STOP_REASON_MAX + 1;
    const struct job *to = cluster_job(cluster, job->beneficiary);
    char name[REASON_NAME_MAX];
    if (strcmp(job->beneficiary, job->id) == 0)
        (void)str_printf(ret, size, "the job was scaled down, and node %s is given back",
                         worker->node);
    else if (job->beneficiary[0])
        (void)str_printf(ret, size, "job %s waits for node %s",
                         reason_name_job(to, job->beneficiary, name), worker->node);
    else
        (void)str_printf(ret, size, "node %s is given back", worker->node);
}

void worker_stop_reason(const struct cluster *cluster, const struct job *job,
                        const struct worker *worker, char ret[STOP_REASON_MAX + 1])
{
    const struct node *node = cluster_node(cluster, worker->node);
    if (job_gang_ends(job))
        (void)str_printf(ret, STOP_REASON_MAX + 1, "%.*s", STOP_REASON_MAX, job->reason.text);
    else if (worker->leaving)
        describe_given_back(cluster, job, worker, ret);
    else if (node && node->want_drain)
        (void)str_printf(ret, STOP_REASON_MAX + 1, "node %s is being emptied%s%.300s", node->name,
                         *node_drain_why(node) ? ": " : "", node_drain_why(node));
    else
        (void)str_copy(ret, STOP_REASON_MAX + 1, "the gang continues without it");
}
