#include "coordinator/scheduler/defrag.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/model/query.h"
#include "coordinator/scheduler/dry_run.h"
#include "coordinator/scheduler/eviction_view.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/victim.h"

struct defrag {
    const struct pass *pass;
    const struct job *job;
    struct request request; /* of the job */
    struct view view;       /* as if the present moves were done */
    struct eviction moves[DEFRAG_MOVES_MAX];
    int count;
};

struct option { /* a node that could be cleared enough */
    int index;
    int slots; /* number that would have to move */
};

int64_t defrag_rest_ends(const struct job *job)
{
    return job->moved_at_ms ? job->moved_at_ms + DEFRAG_REST_MS : 0;
}

static bool may_move(const struct defrag *defrag, const struct job *job)
{
    return job_may_shrink(job) && job->current.nodes >= 2 &&
           job->current.nodes <= job->spec->nodes_min &&
           job->spec->priority <= defrag->job->spec->priority &&
           !view_is_absent(&defrag->view, job) && defrag_rest_ends(job) <= defrag->view.now_ms;
}

static bool moves_already(const struct defrag *defrag, const struct job *job)
{
    for (int i = 0; i < defrag->count; i++)
        if (defrag->moves[i].job == job)
            return true;
    return false;
}

/* The topology value that pins the job. */
static const char *topology_value_of(const struct defrag *defrag, const struct job *job)
{
    for (int i = 0; i < job->workers_count && job->spec->topology[0]; i++) {
        const struct view_node *node = view_find(&defrag->view, job->workers[i].node);
        if (node && job->workers[i].state != WORKER_EXITED)
            return node_label(node->node, job->spec->topology);
    }
    return NULL;
}

/* Move the part of a gang on this node elsewhere; the view changes accordingly. */
static bool plan_move(struct defrag *defrag, struct job *job, struct view_node *from)
{
    struct placement placement = {0};
    struct request request = {.spec = job->spec,
                              .nodes_min = 1,
                              .nodes_max = 1,
                              .sequence = defrag->job->sequence, /* may use the job's reservation */
                              .avoid = job,
                              .together = topology_value_of(defrag, job)};
    if (defrag->count == DEFRAG_MOVES_MAX || !may_move(defrag, job) || moves_already(defrag, job) ||
        !scheduler_place(&defrag->view, &request, &placement, NULL))
        return false;
    placement_fini(&placement);
    for (int i = 0; i < job->workers_count; i++)
        if (strcmp(job->workers[i].node, from->node->name) == 0)
            view_release(&defrag->view, job, &job->workers[i]);
    defrag->moves[defrag->count++] =
        (struct eviction){.job = job, .node = from->node, .to = defrag->job, .moves = true};
    return true;
}

/* Move gangs off this node until the job fits (none moves to a node it already uses). On false the
 * caller restores the view and the moves. */
static bool clear_node(struct defrag *defrag, struct view_node *node)
{
    for (struct map_entry *e = map_first(&node->node->jobs);
         e && !node_fits_now(node, defrag->job->spec, NULL); e = map_next(e))
        (void)plan_move(defrag, e->value, node);
    return node_fits_now(node, defrag->job->spec, NULL);
}

static int slots_to_move(const struct defrag *defrag, const struct view_node *node)
{
    int movable = 0, needs = queue_slots_of(defrag->job->spec, 1) - node->slots_free;
    for (struct map_entry *e = map_first(&node->node->jobs); e; e = map_next(e)) {
        const struct job *job = e->value;
        if (may_move(defrag, job))
            movable += job->spec->workers_per_node * job->spec->resources.slots;
    }
    return movable >= needs ? needs : -1;
}

static int compare_options(const void *a, const void *b)
{
    const struct option *x = a, *y = b;
    return x->slots != y->slots ? (x->slots < y->slots ? -1 : 1)
                                : (x->index > y->index) - (x->index < y->index);
}

/* Sorted by the number of slots that would have to move. */
static int find_options(const struct defrag *defrag, struct option *ret)
{
    int count = 0;
    for (int i = 0; i < defrag->view.count; i++) {
        const struct view_node *node = &defrag->view.nodes[i];
        if (!victim_node_is_useful(defrag->pass, defrag->job, node) ||
            node_fits_now(node, defrag->job->spec, NULL))
            continue;
        int slots = slots_to_move(defrag, node);
        if (slots >= 0)
            ret[count++] = (struct option){.index = i, .slots = slots};
    }
    qsort(ret, (size_t)count, sizeof(*ret), compare_options);
    return count < DEFRAG_NODES_MAX ? count : DEFRAG_NODES_MAX;
}

static void restore_view(struct defrag *defrag, const struct view_node *nodes, int available)
{
    struct view *view = &defrag->view;
    memcpy(view->nodes, nodes, sizeof(*nodes) * (size_t)view->count);
    view->available = available;
    view->unfilled_count = 0;
    for (int i = 0; i < view->count; i++) {
        view->nodes[i].is_unfilled = nodes[i].open && nodes[i].slots_free > 0;
        if (view->nodes[i].is_unfilled)
            view->unfilled[view->unfilled_count++] = i;
    }
}

static bool find_moves(struct defrag *defrag)
{
    size_t capacity = (size_t)defrag->view.count + 1;
    struct option *options = calloc(capacity, sizeof(*options));
    struct view_node *before = calloc(capacity, sizeof(*before));
    insist(options && before);
    int count = find_options(defrag, options);
    bool found = false;
    for (int i = 0; i < count && !found; i++) {
        int moves = defrag->count, available = defrag->view.available;
        memcpy(before, defrag->view.nodes, sizeof(*before) * (size_t)defrag->view.count);
        if (!clear_node(defrag, &defrag->view.nodes[options[i].index])) {
            restore_view(defrag, before, available);
            defrag->count = moves;
        }
        found = defrag->count > 0 && scheduler_fits(&defrag->view, &defrag->request);
    }
    free(options);
    free(before);
    return found;
}

/* Moving makes no new slots: without enough in sum a search is useless. */
static bool enough_in_sum(const struct defrag *defrag)
{
    int free_slots = 0;
    for (int i = 0; i < defrag->view.count; i++)
        if (victim_node_is_useful(defrag->pass, defrag->job, &defrag->view.nodes[i]))
            free_slots += defrag->view.nodes[i].slots_free;
    return free_slots >= queue_slots_of(defrag->job->spec, defrag->job->spec->nodes_min);
}

bool defrag_plan(struct pass *pass, const struct job *job)
{
    struct defrag defrag = {.pass = pass, .job = job};
    defrag.request = (struct request){.spec = job->spec,
                                      .sequence = job->sequence,
                                      .nodes_min = job->spec->nodes_min,
                                      .nodes_max = job->spec->nodes_min};
    eviction_view_init(pass, &defrag.view);
    bool found = !scheduler_fits(&defrag.view, &defrag.request) && enough_in_sum(&defrag) &&
                 find_moves(&defrag) && dry_run_places(pass, job, defrag.moves, defrag.count);
    view_fini(&defrag.view);
    for (int i = 0; i < defrag.count && found; i++)
        pass_add_eviction(pass, &defrag.moves[i]);
    return found;
}
