#include "coordinator/scheduler/request.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

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

bool request_is_same(const struct spec *a, const struct spec *b)
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
