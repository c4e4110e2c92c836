#include "coordinator/scheduler/scheduler.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/scheduler/explain.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/gang.h"

/* Indices of all candidates; full nodes are removed from the list. */
static int find_candidates(struct view *view, const struct request *request, int *ret)
{
    int kept = 0, count = 0;
    for (int i = 0; i < view->unfilled_count; i++) {
        int index = view->unfilled[i];
        struct view_node *node = &view->nodes[index];
        node->is_unfilled = node->open && node->slots_free > 0;
        if (!node->is_unfilled)
            continue;
        view->unfilled[kept++] = index;
        if (node_is_candidate(node, request))
            ret[count++] = index;
    }
    view->unfilled_count = kept;
    return count;
}

static void take_slots(struct view_node *node, const struct spec *spec, struct placed_node *ret)
{
    (void)str_copy(ret->name, sizeof(ret->name), node->node->name);
    insist(node_fits_now(node, spec, ret->slots));
    for (int i = 0; i < spec->workers_per_node; i++)
        for (int slot = ret->slots[i]; slot < ret->slots[i] + spec->resources.slots; slot++)
            node->slot_map[slot / 64] |= UINT64_C(1) << (slot % 64);
    node->slots_free -= spec->workers_per_node * spec->resources.slots;
    node->cpus_milli_free -= spec->workers_per_node * spec->resources.cpus_milli;
    node->memory_bytes_free -= spec->workers_per_node * spec->resources.memory_bytes;
}

bool scheduler_fits(struct view *view, const struct request *request)
{
    int *candidates = malloc(sizeof(*candidates) * ((size_t)view->unfilled_count + 1));
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
    int *candidates = malloc(sizeof(*candidates) * ((size_t)view->unfilled_count + 1));
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
        take_slots(node, request->spec, &ret_placement->nodes[i]);
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
