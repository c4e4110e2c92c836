#include "coordinator/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/scheduler/explain.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/gang.h"

void placement_fini(struct placement *placement)
{
    free(placement->nodes);
    placement->nodes = NULL;
    placement->count = 0;
}

void placement_join(struct placement *placement, struct placement *more)
{
    int count = placement->count + more->count, a = 0, b = 0;
    struct placed_node *nodes = calloc((size_t)count + 1, sizeof(*nodes));
    insist(nodes);
    for (int i = 0; i < count; i++) {
        bool first = b == more->count || (a < placement->count && strcmp(placement->nodes[a].name,
                                                                         more->nodes[b].name) < 0);
        nodes[i] = first ? placement->nodes[a++] : more->nodes[b++];
    }
    placement_fini(placement);
    placement_fini(more);
    placement->nodes = nodes;
    placement->count = count;
}

/* A reserved node may be used by a job that ends before the reservation begins. */
static bool is_kept_from(const struct view_node *node, const struct request *request)
{
    return node->held_for && node->held_for != request->sequence &&
           !(request->release_at_ms > 0 && node->held_at_ms != INT64_MAX &&
             request->release_at_ms <= node->held_at_ms);
}

static int by_name(const void *name, const void *placed)
{
    return strcmp(name, ((const struct placed_node *)placed)->name);
}

static bool is_placed(const struct view_node *node, const struct placement *placement)
{
    return placement && placement->count > 0 &&
           bsearch(node->node->name, placement->nodes, (size_t)placement->count,
                   sizeof(*placement->nodes), by_name);
}

bool scheduler_could_take(const struct view_node *node, const struct request *request)
{
    const struct spec *spec = request->spec;
    if (!node->open || is_kept_from(node, request) || !node_has_room(node, spec, NULL) ||
        unmet_constraint(node->node, spec))
        return false;
    if (request->together) {
        const char *value = node_label(node->node, spec->topology);
        if (!value || strcmp(value, request->together) != 0)
            return false;
    }
    return !node_is_avoided(node, request) && !is_placed(node, request->avoid_placed);
}

/* Indices of all candidates; full nodes are removed from the list. */
static int find_candidates(struct view *view, const struct request *request, int *ret)
{
    int kept = 0, count = 0;
    for (int i = 0; i < view->roomy_count; i++) {
        int index = view->roomy[i];
        struct view_node *node = &view->nodes[index];
        node->roomy = node->open && node->slots_free > 0;
        if (!node->roomy)
            continue;
        view->roomy[kept++] = index;
        if (scheduler_could_take(node, request))
            ret[count++] = index;
    }
    view->roomy_count = kept;
    return count;
}

static void take(struct view_node *node, const struct spec *spec, struct placed_node *ret)
{
    (void)str_copy(ret->name, sizeof(ret->name), node->node->name);
    insist(node_has_room(node, spec, ret->slots));
    for (int i = 0; i < spec->workers_per_node; i++)
        for (int slot = ret->slots[i]; slot < ret->slots[i] + spec->resources.slots; slot++)
            node->slot_map[slot / 64] |= UINT64_C(1) << (slot % 64);
    node->slots_free -= spec->workers_per_node * spec->resources.slots;
    node->cpus_milli_free -= spec->workers_per_node * spec->resources.cpus_milli;
    node->memory_bytes_free -= spec->workers_per_node * spec->resources.memory_bytes;
}

bool scheduler_fits(struct view *view, const struct request *request)
{
    int *candidates = malloc(sizeof(*candidates) * ((size_t)view->roomy_count + 1));
    insist(candidates);
    int count = find_candidates(view, request, candidates);
    count = gang_largest_group(view, request, candidates, count);
    free(candidates);
    return count >= request->nodes_min;
}

static int by_index(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

bool scheduler_place(struct view *view, const struct request *request,
                     struct placement *ret_placement, struct reason *ret_reason)
{
    insist(request->nodes_min >= 1 && request->nodes_max >= request->nodes_min);
    int *candidates = malloc(sizeof(*candidates) * ((size_t)view->roomy_count + 1));
    insist(candidates);
    int count = find_candidates(view, request, candidates);
    count = gang_choose(view, request, candidates, count);
    if (count < request->nodes_min) {
        free(candidates);
        if (ret_reason)
            explain_refusal(view, request, ret_reason);
        return false;
    }
    qsort(candidates, (size_t)count, sizeof(*candidates), by_index);
    ret_placement->nodes = calloc((size_t)count, sizeof(*ret_placement->nodes));
    insist(ret_placement->nodes);
    ret_placement->count = count;
    for (int i = 0; i < count; i++) {
        struct view_node *node = &view->nodes[candidates[i]];
        bool before = view_is_available(node);
        take(node, request->spec, &ret_placement->nodes[i]);
        view->available -= before && !view_is_available(node);
    }
    free(candidates);
    return true;
}

int64_t scheduler_release_at(const struct job *job, int64_t now_ms)
{
    if (job->state == JOB_STOPPING || job->state == JOB_PREEMPTING)
        return now_ms + END_SLACK_MS;
    if (job->runtime_deadline_ms)
        return job->runtime_deadline_ms + END_SLACK_MS;
    if (!job->spec->max_runtime_ms)
        return INT64_MAX;
    int64_t from_ms = job->state == JOB_STARTING ? job->forming.since_ms : now_ms;
    return from_ms + START_SLACK_MS + job->spec->max_runtime_ms - job->runtime_used_ms +
           END_SLACK_MS;
}

bool scheduler_same_request(const struct spec *a, const struct spec *b)
{
    if (a == b)
        return true;
    if (a->nodes_min != b->nodes_min || a->workers_per_node != b->workers_per_node ||
        a->resources.slots != b->resources.slots ||
        a->resources.cpus_milli != b->resources.cpus_milli ||
        a->resources.memory_bytes != b->resources.memory_bytes ||
        a->constraints_count != b->constraints_count || strcmp(a->topology, b->topology) != 0)
        return false;
    for (int i = 0; i < a->constraints_count; i++)
        if (strcmp(a->constraints[i].key, b->constraints[i].key) != 0 ||
            strcmp(a->constraints[i].value, b->constraints[i].value) != 0)
            return false;
    return true;
}
