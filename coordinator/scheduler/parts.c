#include "coordinator/scheduler/parts.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "coordinator/model/cluster_walk.h"

static const struct view_node *place_of(const struct view *view, const struct worker *worker)
{
    return worker->state == WORKER_EXITED ? NULL : view_find(view, worker->node);
}

static int count_workers(const struct view *view)
{
    int count = 0;
    for (const struct job *job = cluster_first_begun_job(view->cluster); job;
         job = cluster_next_begun_job(view->cluster, job))
        count += job->workers_count;
    return count;
}

/* The node of each worker, in the order of jobs and workers, -1 = none; counted by node. */
static void find_places(struct parts *parts, const struct view *view, int *ret)
{
    int at = 0;
    for (const struct job *job = cluster_first_begun_job(view->cluster); job;
         job = cluster_next_begun_job(view->cluster, job))
        for (int i = 0; i < job->workers_count; i++, at++) {
            const struct view_node *node = place_of(view, &job->workers[i]);
            ret[at] = node ? (int)(node - view->nodes) : -1;
            if (node)
                parts->first[ret[at] + 1]++;
        }
    for (int i = 0; i < view->count; i++)
        parts->first[i + 1] += parts->first[i];
}

void parts_find(struct parts *parts, const struct view *view)
{
    size_t workers = (size_t)count_workers(view) + 1, nodes = (size_t)view->count + 1;
    int *places = calloc(workers, sizeof(*places)), *next = calloc(nodes, sizeof(*next)), at = 0;
    parts->places = places;
    parts->all = calloc(workers, sizeof(*parts->all));
    parts->first = calloc(nodes, sizeof(*parts->first));
    insist(places && next && parts->all && parts->first);
    find_places(parts, view, places);
    for (const struct job *job = cluster_first_begun_job(view->cluster); job;
         job = cluster_next_begun_job(view->cluster, job))
        for (int i = 0; i < job->workers_count; i++, at++) {
            const struct worker *worker = &job->workers[i];
            if (places[at] >= 0)
                parts->all[parts->first[places[at]] + next[places[at]]++] = (struct part){
                    .job = job, .worker = worker, .slot = worker->slot, .leaving = worker->leaving};
        }
    free(next);
}

void parts_fini(struct parts *parts)
{
    free(parts->all);
    free(parts->first);
    free(parts->places);
    *parts = (struct parts){0};
}
