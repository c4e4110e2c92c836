#include "coordinator/model/assignment.h"

#include <string.h>

#include "coordinator/model/cluster_internal.h"

static const struct group *group_for(const struct job *job, const struct worker *worker,
                                     int *ret_rank)
{
    int current = group_rank_of_worker(&job->current, worker);
    int forming = group_rank_of_worker(&job->forming, worker);
    if (forming >= 0 && (job->forming.open || current < 0)) {
        *ret_rank = forming;
        return &job->forming;
    }
    *ret_rank = current >= 0 ? current : worker->rank;
    return &job->current;
}

/* True if no member has ended or reported lost peers. */
static bool is_complete(const struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (worker->state == WORKER_EXITED || worker->broken == group->generation)
            return false;
    }
    return true;
}

static void assignment_of(const struct job *job, const struct worker *worker,
                          struct assignment *ret)
{
    int rank;
    const struct group *group = group_for(job, worker, &rank);
    bool member = rank >= 0 && rank < group->world && group->members[rank] == worker->uid;
    *ret = (struct assignment){
        .job = job,
        .worker = worker,
        .group = group,
        .generation = worker->should_stop || !member ? worker->generation : group->generation,
        .rank = rank,
        .local_rank = worker->local_rank,
        .stop = worker->should_stop || !member,
    };
    if (!member)
        return;
    ret->world = group->world;
    ret->local_world = group->places[rank].local_world;
    ret->node_rank = group->places[rank].node_rank;
    ret->node_count = group->nodes;
    ret->published = group->published && group->joined;
    ret->reform = group == &job->forming && group->open && worker->born < group->generation;
    ret->complete = ret->reform && is_complete(job, &job->current);
}

void cluster_assignments(const struct cluster *cluster, const char *node_name, assignment_fn fn,
                         void *arg)
{
    const struct node *node = cluster_node(cluster, node_name);
    if (!node)
        return;
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e)) {
        const struct job *job = e->value;
        for (int i = 0; i < job->workers_count; i++) {
            const struct worker *worker = &job->workers[i];
            if (worker->state == WORKER_EXITED || worker->held ||
                strcmp(worker->node, node_name) != 0)
                continue;
            struct assignment assignment;
            assignment_of(job, worker, &assignment);
            fn(arg, &assignment);
        }
    }
}
