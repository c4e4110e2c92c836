#include "coordinator/model/query.h"

#include <string.h>

#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/reason.h"

bool worker_living(const struct worker *worker)
{
    return worker->state != WORKER_EXITED;
}

bool worker_finished(const struct worker *worker)
{
    const struct exit_info *exit = &worker->exit;
    return worker->state == WORKER_EXITED && exit->code == 0 && exit->signal == 0 && !exit->oom &&
           !exit->lost;
}

bool worker_is_leaving(const struct worker *worker)
{
    return worker->state != WORKER_EXITED && (worker->should_stop || worker->leaving);
}

int job_living_workers(const struct job *job)
{
    int living = 0;
    for (int i = 0; i < job->workers_count; i++)
        living += worker_living(&job->workers[i]);
    return living;
}

int cluster_living_workers(const struct cluster *cluster)
{
    int living = 0;
    for (const struct job *job = cluster_first_begun_job(cluster); job;
         job = cluster_next_begun_job(cluster, job))
        living += job_living_workers(job);
    return living;
}

bool job_is_finishing(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        if (worker_finished(worker) && (group_rank_of(&job->current, worker->uid) >= 0 ||
                                        group_rank_of(&job->forming, worker->uid) >= 0))
            return true;
    }
    return false;
}

struct worker *job_next_left(const struct job *job, int *rank)
{
    for (; *rank < job->current.world; (*rank)++) {
        struct worker *worker = job_worker(job, job->current.members[*rank]);
        if (group_rank_of(&job->forming, worker->uid) < 0)
            return worker;
    }
    return NULL;
}

bool job_is_moving(const struct job *job)
{
    int rank = 0;
    return job->current.generation && job->forming.generation && !job->forming.open &&
           job_next_left(job, &rank);
}

bool job_gang_ends(const struct job *job)
{
    return job->state == JOB_STOPPING || job->state == JOB_PREEMPTING ||
           job->state == JOB_RESTARTING;
}

bool job_state_waits(enum job_state state)
{
    return state == JOB_QUEUED || state == JOB_RESTARTING;
}

const char *node_label(const struct node *node, const char *key)
{
    for (int i = 0; i < node->labels_count; i++)
        if (strcmp(node->labels[i].key, key) == 0)
            return node->labels[i].value;
    return strcmp(key, "node") == 0 ? node->name : NULL;
}

const char *node_drain_why(const struct node *node)
{
    bool given = node->want_drain && node->state == NODE_DRAINING &&
                 strcmp(node->reason.kind, reason_name(REASON_ADMINISTRATOR)) == 0 &&
                 strcmp(node->reason.text, NODE_EMPTYING) != 0;
    return given ? node->reason.text : "";
}

bool node_usable(const struct node *node)
{
    return node && node->state != NODE_LOST && !node->want_drain;
}

const char *job_topology_value(const struct cluster *cluster, const struct job *job)
{
    if (!job->spec->topology[0])
        return NULL;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        const struct node *node = cluster_node(cluster, worker->node);
        if (worker_living(worker) && node)
            return node_label(node, job->spec->topology);
    }
    return NULL;
}

bool group_all_finished(const struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++)
        if (!worker_finished(job_worker(job, group->members[rank])))
            return false;
    return group->generation != 0;
}

bool group_has_asked(const struct worker *worker, uint64_t generation)
{
    return worker->endpoint[0] && worker_living(worker) &&
           (worker->joining == generation || worker->joined == generation);
}
