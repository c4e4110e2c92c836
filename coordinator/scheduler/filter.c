#include "coordinator/scheduler/filter.h"

#include <string.h>

const char *node_label(const struct node *node, const char *key)
{
    for (int i = 0; i < node->labels_count; i++)
        if (strcmp(node->labels[i].key, key) == 0)
            return node->labels[i].value;
    return strcmp(key, "node") == 0 ? node->name : NULL;
}

const struct pair *unmet_constraint(const struct node *node, const struct spec *spec)
{
    for (int i = 0; i < spec->constraints_count; i++) {
        const char *value = node_label(node, spec->constraints[i].key);
        if (!value || strcmp(value, spec->constraints[i].value) != 0)
            return &spec->constraints[i];
    }
    return NULL;
}

static bool fits(const struct spec *spec, int slots, int cpus_milli, int64_t memory_bytes)
{
    const struct resources *each = &spec->resources;
    int workers = spec->workers_per_node;
    return workers * each->slots <= slots && workers * (int64_t)each->cpus_milli <= cpus_milli &&
           workers * each->memory_bytes <= memory_bytes;
}

bool node_large_enough(const struct node *node, const struct spec *spec)
{
    return fits(spec, node->slots, node->cpus_milli, node->memory_bytes);
}

static bool slot_taken(const struct view_node *node, int slot)
{
    return node->slot_map[slot / 64] >> (slot % 64) & 1;
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

bool node_has_room(const struct view_node *node, const struct spec *spec, int *ret_slots)
{
    return fits(spec, node->slots_free, node->cpus_milli_free, node->memory_bytes_free) &&
           find_runs(node, spec->workers_per_node, spec->resources.slots, ret_slots);
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
