#include "coordinator/scheduler/view.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/model/cluster_walk.h"

bool view_is_available(const struct view_node *node)
{
    return node->open && node->slots_free > 0 && !(node->held_for && node->held_at_ms == INT64_MAX);
}

/* Held slots that no worker uses. */
static int slots_held(const struct node *node)
{
    int held = 0;
    for (int slot = 0; slot < node->gpus_count; slot++)
        if (node_holds(node, slot) && !(node->slot_map[slot / 64] >> (slot % 64) & 1))
            held++;
    return held;
}

static void init_node(struct view_node *ret, const struct node *node)
{
    *ret = (struct view_node){
        .node = node,
        .slots_free = node->slots - node->slots_used - slots_held(node),
        .cpus_milli_free = node->cpus_milli - node->cpus_milli_used,
        .memory_bytes_free = node->memory_bytes - node->memory_bytes_used,
        .open = node->state == NODE_READY && node->foreign == 0,
        .counted = node->state == NODE_READY || node->state == NODE_JOINING ||
                   (node->state == NODE_UNREACHABLE && !node->want_cordon && !node->want_drain),
    };
    memcpy(ret->slot_map, node->slot_map, sizeof(ret->slot_map));
}

static int by_name(const void *a, const void *b)
{
    const struct view_node *x = a, *y = b;
    return strcmp(x->node->name, y->node->name);
}

static void find_available(struct view *view)
{
    view->available = view->unfilled_count = 0;
    for (int i = 0; i < view->count; i++) {
        view->available += view_is_available(&view->nodes[i]);
        view->nodes[i].is_unfilled = view->nodes[i].open && view->nodes[i].slots_free > 0;
        if (view->nodes[i].is_unfilled)
            view->unfilled[view->unfilled_count++] = i;
    }
}

void view_init(struct view *view, const struct cluster *cluster, int64_t now_ms)
{
    size_t capacity = (size_t)cluster_nodes_count(cluster) + 1;
    *view = (struct view){.cluster = cluster, .now_ms = now_ms};
    view->nodes = calloc(capacity, sizeof(*view->nodes));
    view->unfilled = calloc(capacity, sizeof(*view->unfilled));
    insist(view->nodes && view->unfilled);
    for (const struct node *node = cluster_first_node(cluster); node;
         node = cluster_next_node(cluster, node))
        init_node(&view->nodes[view->count++], node);
    find_available(view);
}

void view_add_nodes(struct view *view, struct node *const *nodes, int count)
{
    size_t capacity = (size_t)(view->count + count) + 1;
    struct view_node *all = realloc(view->nodes, sizeof(*all) * capacity);
    int *unfilled = realloc(view->unfilled, sizeof(*unfilled) * capacity);
    insist(all && unfilled);
    view->nodes = all;
    view->unfilled = unfilled;
    for (int i = 0; i < count; i++)
        init_node(&view->nodes[view->count++], nodes[i]);
    qsort(view->nodes, (size_t)view->count, sizeof(*view->nodes), by_name);
    find_available(view);
}

bool view_is_absent(const struct view *view, const struct job *job)
{
    const struct absence *absent = view->absent;
    if (!absent)
        return false;
    for (int i = 0; i < absent->jobs_count; i++)
        if (absent->jobs[i] == job)
            return true;
    for (int i = 0; i < absent->tenants_count; i++)
        if (absent->tenants[i] == job->tenant)
            return true;
    if (absent->displaced && map_get(absent->displaced, job->sequence))
        return true;
    return absent->ended && map_get(absent->ended, job->sequence) == job;
}

void view_fini(struct view *view)
{
    free(view->nodes);
    free(view->unfilled);
    *view = (struct view){0};
}

struct view_node *view_find(const struct view *view, const char *name)
{
    int low = 0, high = view->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(view->nodes[middle].node->name, name);
        if (order == 0)
            return &view->nodes[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static void list_unfilled(struct view *view, struct view_node *node)
{
    if (!node->open || node->is_unfilled)
        return;
    node->is_unfilled = true;
    view->unfilled[view->unfilled_count++] = (int)(node - view->nodes);
}

static void mark_slots(struct view_node *node, const struct job *job, int first, bool taken)
{
    int each = job->spec->resources.slots;
    for (int slot = first; slot < first + each && slot < NODE_SLOTS_MAX; slot++) {
        uint64_t bit = UINT64_C(1) << (slot % 64);
        node->slot_map[slot / 64] =
            taken ? node->slot_map[slot / 64] | bit : node->slot_map[slot / 64] & ~bit;
    }
}

void view_release_slots(struct view *view, struct view_node *node, const struct job *job, int slot)
{
    bool before = view_is_available(node);
    mark_slots(node, job, slot, false);
    node->slots_free += job->spec->resources.slots;
    node->cpus_milli_free += job->spec->resources.cpus_milli;
    node->memory_bytes_free += job->spec->resources.memory_bytes;
    view->available += view_is_available(node) - before;
    list_unfilled(view, node);
}

void view_occupy_slots(struct view *view, struct view_node *node, const struct job *job, int slot)
{
    bool before = view_is_available(node);
    mark_slots(node, job, slot, true);
    node->slots_free -= job->spec->resources.slots;
    node->cpus_milli_free -= job->spec->resources.cpus_milli;
    node->memory_bytes_free -= job->spec->resources.memory_bytes;
    view->available += view_is_available(node) - before;
}

void view_release(struct view *view, const struct job *job, const struct worker *worker)
{
    struct view_node *node = view_find(view, worker->node);
    if (node && worker->state != WORKER_EXITED)
        view_release_slots(view, node, job, worker->slot);
}

void view_drain(struct view *view, struct view_node *node)
{
    view->available -= view_is_available(node);
    node->open = node->counted = false;
}

void view_hold(struct view *view, struct view_node *node, uint64_t sequence, int64_t at_ms)
{
    bool before = view_is_available(node);
    node->held_for = sequence;
    node->held_at_ms = at_ms;
    view->available -= before && !view_is_available(node);
}
