#include "coordinator/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/scheduler/explain.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/gang.h"

static bool is_available(const struct view_node *node)
{
    return node->open && !node->held_for && node->slots_free > 0;
}

static void view_node_init(struct view_node *ret, const struct node *node)
{
    *ret = (struct view_node){
        .node = node,
        .slots_free = node->slots - node->slots_used,
        .cpus_milli_free = node->cpus_milli - node->cpus_milli_used,
        .memory_bytes_free = node->memory_bytes - node->memory_bytes_used,
        .open = node->state == NODE_READY && node->foreign == 0,
        .counted = node->state == NODE_READY || node->state == NODE_JOINING ||
                   (node->state == NODE_UNREACHABLE && !node->want_cordon && !node->want_drain),
    };
    memcpy(ret->slot_map, node->slot_map, sizeof ret->slot_map);
}

void view_init(struct view *view, const struct cluster *cluster)
{
    int capacity = cluster_nodes_count(cluster);
    *view = (struct view){.cluster = cluster};
    view->nodes = calloc((size_t)capacity + 1, sizeof *view->nodes);
    insist(view->nodes);
    for (const struct node *node = cluster_first_node(cluster); node;
         node = cluster_next_node(cluster, node)) {
        view_node_init(&view->nodes[view->count], node);
        view->available += is_available(&view->nodes[view->count++]);
    }
}

void view_fini(struct view *view)
{
    free(view->nodes);
    view->nodes = NULL;
    view->count = 0;
}

void placement_fini(struct placement *placement)
{
    free(placement->nodes);
    placement->nodes = NULL;
    placement->count = 0;
}

static bool is_candidate(const struct view_node *node, const struct request *request)
{
    const struct spec *spec = request->spec;
    if (request->together) {
        const char *value = node_label(node->node, spec->topology);
        if (!value || strcmp(value, request->together) != 0)
            return false;
    }
    return node->open && !node->held_for && !unmet_constraint(node->node, spec) &&
           node_has_room(node, spec, NULL) && !node_is_avoided(node, request);
}

static void take(struct view_node *node, const struct spec *spec, struct placed_node *ret)
{
    (void)str_copy(ret->name, sizeof ret->name, node->node->name);
    insist(node_has_room(node, spec, ret->slots));
    for (int i = 0; i < spec->workers_per_node; i++)
        for (int slot = ret->slots[i]; slot < ret->slots[i] + spec->resources.slots; slot++)
            node->slot_map[slot / 64] |= UINT64_C(1) << (slot % 64);
    node->slots_free -= spec->workers_per_node * spec->resources.slots;
    node->cpus_milli_free -= spec->workers_per_node * spec->resources.cpus_milli;
    node->memory_bytes_free -= spec->workers_per_node * spec->resources.memory_bytes;
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
    int *candidates = malloc(sizeof *candidates * ((size_t)view->count + 1));
    insist(candidates);
    int count = 0;
    for (int i = 0; i < view->count; i++)
        if (is_candidate(&view->nodes[i], request))
            candidates[count++] = i;
    count = gang_choose(view, request, candidates, count);
    if (count < request->nodes_min) {
        free(candidates);
        explain_refusal(view, request, ret_reason);
        return false;
    }
    qsort(candidates, (size_t)count, sizeof *candidates, by_index);
    ret_placement->nodes = calloc((size_t)count, sizeof *ret_placement->nodes);
    insist(ret_placement->nodes);
    ret_placement->count = count;
    for (int i = 0; i < count; i++) {
        take(&view->nodes[candidates[i]], request->spec, &ret_placement->nodes[i]);
        view->available -= !is_available(&view->nodes[candidates[i]]);
    }
    free(candidates);
    return true;
}

static bool could_use(const struct view_node *node, const struct spec *spec)
{
    return node->counted && !unmet_constraint(node->node, spec) &&
           node_large_enough(node->node, spec);
}

void scheduler_hold(struct view *view, const struct job *job)
{
    const struct spec *spec = job->spec;
    struct request request = {
        .spec = spec, .nodes_min = spec->nodes_min, .nodes_max = spec->nodes_max};
    int *usable = malloc(sizeof *usable * ((size_t)view->count + 1));
    insist(usable);
    int count = 0;
    for (int i = 0; i < view->count; i++)
        if (could_use(&view->nodes[i], spec))
            usable[count++] = i;
    bool fits = gang_choose(view, &request, usable, count) >= spec->nodes_min;
    free(usable);
    for (int i = 0; fits && i < view->count; i++) {
        struct view_node *node = &view->nodes[i];
        if (node->held_for || !could_use(node, spec))
            continue;
        view->available -= is_available(node);
        node->held_for = job->sequence;
    }
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
