#include "coordinator/scheduler/eviction_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/query.h"
#include "coordinator/scheduler/scheduler.h"

static void copy_view(const struct view *from, struct view *to)
{
    size_t capacity = (size_t)from->count + 1;
    *to = *from;
    to->nodes = malloc(sizeof(*to->nodes) * capacity);
    to->unfilled = malloc(sizeof(*to->unfilled) * capacity);
    insist(to->nodes && to->unfilled);
    memcpy(to->nodes, from->nodes, sizeof(*to->nodes) * (size_t)from->count);
    memcpy(to->unfilled, from->unfilled, sizeof(*to->unfilled) * (size_t)from->unfilled_count);
}

static void release_leaving(struct view *view, const struct parts *parts)
{
    const int *at = parts->places;
    for (const struct job *job = cluster_first_begun_job(view->cluster); job;
         job = cluster_next_begun_job(view->cluster, job)) {
        for (int i = 0; !view_is_absent(view, job) && i < job->workers_count; i++)
            if (at[i] >= 0 && worker_is_leaving(&job->workers[i]))
                view_release_slots(view, &view->nodes[at[i]], job, job->workers[i].slot);
        at += job->workers_count;
    }
}

static void release_evicted(struct view *view, const struct parts *parts,
                            const struct eviction *eviction)
{
    const struct job *job = eviction->job;
    if (!eviction->node) {
        for (int i = 0; i < job->workers_count; i++)
            if (!worker_is_leaving(&job->workers[i]))
                view_release(view, job, &job->workers[i]);
        return;
    }
    struct view_node *node = view_find(view, eviction->node->name);
    int index = (int)(node - view->nodes);
    for (const struct part *p = &parts->all[parts->first[index]];
         p < &parts->all[parts->first[index + 1]]; p++)
        if (p->job == job && !worker_is_leaving(p->worker))
            view_release_slots(view, node, job, p->slot);
}

/* The smallest gang starts. */
static bool place_smallest_gang(struct view *view, const struct job *job, struct placement *ret)
{
    struct request request = {.spec = job->spec,
                              .sequence = job->sequence,
                              .nodes_min = job->spec->nodes_min,
                              .nodes_max = job->spec->nodes_min};
    return scheduler_place(view, &request, ret, NULL);
}

static void drop_reservation(struct view *view, const struct job *job)
{
    for (int i = 0; i < view->count; i++) {
        struct view_node *node = &view->nodes[i];
        if (node->held_for != job->sequence)
            continue;
        view->available -= view_is_available(node);
        node->held_for = 0;
        node->held_at_ms = 0;
        view->available += view_is_available(node);
    }
}

void eviction_view_init(const struct pass *pass, struct view *ret)
{
    struct placement placement = {0};
    copy_view(&pass->view, ret);
    release_leaving(ret, &pass->parts);
    for (int i = 0; i < pass->evictions_count; i++)
        release_evicted(ret, &pass->parts, &pass->evictions[i]);
    for (int i = 0; i < pass->nominated_count; i++) {
        (void)place_smallest_gang(ret, pass->nominated[i], &placement);
        placement_fini(&placement);
        drop_reservation(ret, pass->nominated[i]);
    }
    for (int i = 0; i < pass->evictions_count; i++) {
        if (!pass->evictions[i].returns || pass->evictions[i].node)
            continue;
        (void)place_smallest_gang(ret, pass->evictions[i].job, &placement);
        placement_fini(&placement);
    }
}

void eviction_view_nominate(struct pass *pass, const struct job *job, struct view *view)
{
    struct placement placement = {0};
    if (place_smallest_gang(view, job, &placement))
        for (int i = 0; i < placement.count; i++) {
            struct view_node *node = view_find(&pass->view, placement.nodes[i].name);
            if (!node->held_for)
                view_hold(&pass->view, node, job->sequence, pass->view.now_ms + END_SLACK_MS);
        }
    placement_fini(&placement);
    pass_nominate(pass, job);
}
