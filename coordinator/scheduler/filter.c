#include "coordinator/scheduler/filter.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/model/query.h"
#include "coordinator/scheduler/gpu_pick.h"

const struct pair *node_unmet_constraint(const struct node *node, const struct spec *spec)
{
    for (int i = 0; i < spec->constraints_count; i++) {
        const char *value = node_label(node, spec->constraints[i].key);
        if (!value || strcmp(value, spec->constraints[i].value) != 0)
            return &spec->constraints[i];
    }
    return NULL;
}

static bool resources_fit(const struct spec *spec, int slots, int cpus_milli, int64_t memory_bytes)
{
    const struct resources *each = &spec->resources;
    int workers = spec->workers_per_node;
    return workers * each->slots <= slots && workers * (int64_t)each->cpus_milli <= cpus_milli &&
           workers * each->memory_bytes <= memory_bytes;
}

bool node_large_enough(const struct node *node, const struct spec *spec)
{
    return resources_fit(spec, node->slots, node->cpus_milli, node->memory_bytes);
}

static bool slot_taken(const struct view_node *node, int slot)
{
    return (node->slot_map[slot / 64] >> (slot % 64) & 1) || node_holds(node->node, slot);
}

/* First fit of `workers` runs of `each` adjacent slots. */
static bool find_runs(const struct view_node *node, int workers, int each, int *ret_slots)
{
    int found = 0, run = 0;
    for (int slot = 0; slot < node->node->slots && found < workers; slot++) {
        run = slot_taken(node, slot) ? 0 : run + 1;
        if (run < each)
            continue;
        if (ret_slots)
            ret_slots[found] = slot - each + 1;
        found++;
        run = 0;
    }
    return found == workers;
}

/* Slots of GPUs that are better connected than the first ones. */
static void prefer_links(const struct view_node *node, const struct spec *spec, int *ret_slots)
{
    struct gpu_request request = {.workers = spec->workers_per_node, .each = spec->resources.slots};
    struct gpu_links links;
    if (!gpu_links_of(node->node, &links))
        return;
    for (int slot = 0; slot < links.gpus && slot < node->node->slots; slot++)
        if (!slot_taken(node, slot))
            request.free |= UINT64_C(1) << slot;
    (void)gpu_pick(&links, &request, ret_slots);
}

bool node_fits_now(const struct view_node *node, const struct spec *spec, int *ret_slots)
{
    if (!resources_fit(spec, node->slots_free, node->cpus_milli_free, node->memory_bytes_free) ||
        !find_runs(node, spec->workers_per_node, spec->resources.slots, ret_slots))
        return false;
    if (ret_slots)
        prefer_links(node, spec, ret_slots);
    return true;
}

bool node_is_avoided(const struct view_node *node, const struct request *request)
{
    const struct job *job = request->avoid;
    const struct group *group = request->avoid_group;
    if (job && map_get(&node->node->jobs, job->sequence))
        return true;
    for (int rank = 0; job && group && rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (worker && strcmp(worker->node, node->node->name) == 0)
            return true;
    }
    return false;
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

bool node_is_candidate(const struct view_node *node, const struct request *request)
{
    const struct spec *spec = request->spec;
    if (!node->open || is_kept_from(node, request) || !node_fits_now(node, spec, NULL) ||
        node_unmet_constraint(node->node, spec))
        return false;
    if (request->together) {
        const char *value = node_label(node->node, spec->topology);
        if (!value || strcmp(value, request->together) != 0)
            return false;
    }
    return !node_is_avoided(node, request) && !is_placed(node, request->avoid_placed);
}
