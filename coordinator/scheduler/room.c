#include "coordinator/scheduler/room.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

bool room_is_left(const struct worker *worker)
{
    return worker->state != WORKER_EXITED && (worker->should_stop || worker->leaving);
}

static void copy_view(const struct view *from, struct view *to)
{
    size_t capacity = (size_t)from->count + 1;
    *to = *from;
    to->nodes = malloc(sizeof(*to->nodes) * capacity);
    to->roomy = malloc(sizeof(*to->roomy) * capacity);
    insist(to->nodes && to->roomy);
    memcpy(to->nodes, from->nodes, sizeof(*to->nodes) * (size_t)from->count);
    memcpy(to->roomy, from->roomy, sizeof(*to->roomy) * (size_t)from->roomy_count);
}

static void release_leaving(struct view *view, const struct parts *parts)
{
    const int *at = parts->places;
    for (const struct job *job = cluster_first_begun_job(view->cluster); job;
         job = cluster_next_begun_job(view->cluster, job)) {
        for (int i = 0; !view_is_absent(view, job) && i < job->workers_count; i++)
            if (at[i] >= 0 && room_is_left(&job->workers[i]))
                view_release_slots(view, &view->nodes[at[i]], job, job->workers[i].slot);
        at += job->workers_count;
    }
}

static void release_given(struct view *view, const struct parts *parts,
                          const struct concession *given)
{
    const struct job *job = given->job;
    if (!given->node) {
        for (int i = 0; i < job->workers_count; i++)
            if (!room_is_left(&job->workers[i]))
                view_release(view, job, &job->workers[i]);
        return;
    }
    struct view_node *node = view_find(view, given->node->name);
    int index = (int)(node - view->nodes);
    for (const struct part *p = &parts->all[parts->first[index]];
         p < &parts->all[parts->first[index + 1]]; p++)
        if (p->job == job && !room_is_left(p->worker))
            view_release_slots(view, node, job, p->slot);
}

/* The smallest gang starts. */
static bool start(struct view *view, const struct job *job, struct placement *ret)
{
    struct request request = {.spec = job->spec,
                              .sequence = job->sequence,
                              .nodes_min = job->spec->nodes_min,
                              .nodes_max = job->spec->nodes_min};
    return scheduler_place(view, &request, ret, NULL);
}

static void keep_no_more(struct view *view, const struct job *job)
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

void room_view(const struct pass *pass, struct view *ret)
{
    struct placement placement = {0};
    copy_view(&pass->view, ret);
    release_leaving(ret, &pass->parts);
    for (int i = 0; i < pass->given_count; i++)
        release_given(ret, &pass->parts, &pass->given[i]);
    for (int i = 0; i < pass->rooms_count; i++) {
        (void)start(ret, pass->rooms[i], &placement);
        placement_fini(&placement);
        keep_no_more(ret, pass->rooms[i]);
    }
    for (int i = 0; i < pass->given_count; i++) {
        if (!pass->given[i].returns || pass->given[i].node)
            continue;
        (void)start(ret, pass->given[i].job, &placement);
        placement_fini(&placement);
    }
}

void room_note(struct pass *pass, const struct job *job, struct view *view)
{
    struct placement placement = {0};
    if (start(view, job, &placement))
        for (int i = 0; i < placement.count; i++) {
            struct view_node *node = view_find(&pass->view, placement.nodes[i].name);
            if (!node->held_for)
                view_hold(&pass->view, node, job->sequence, pass->view.now_ms + END_SLACK_MS);
        }
    placement_fini(&placement);
    pass_note_room(pass, job);
}
