#include "coordinator/model/node.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

void node_free(struct node *node)
{
    if (!node)
        return;
    map_fini(&node->jobs);
    free(node->gpus);
    free(node);
}

void node_set_gpus(struct node *node, const struct gpu *gpus, int count)
{
    struct gpu *copies = count ? calloc((size_t)count, sizeof(*copies)) : NULL;
    insist(copies || !count);
    if (count)
        memcpy(copies, gpus, sizeof(*copies) * (size_t)count);
    free(node->gpus);
    node->gpus = copies;
    node->gpus_count = count;
}

bool node_holds(const struct node *node, int slot)
{
    return slot < node->gpus_count && (node->gpus[slot].held || node->gpus[slot].now.lost);
}

int node_slots_held(const struct node *node)
{
    int held = 0;
    for (int slot = 0; slot < node->gpus_count; slot++)
        if (node_holds(node, slot))
            held++;
    return held;
}

bool node_refuses_key(const struct node *node, const char *key)
{
    for (int i = 0; i < NODE_REFUSED_KEYS_MAX; i++)
        if (key[0] && strcmp(node->refused_keys[i], key) == 0)
            return true;
    return false;
}

int node_gpus_lost(const struct node *node)
{
    int lost = 0;
    for (int slot = 0; slot < node->gpus_count; slot++)
        if (node->gpus[slot].now.lost)
            lost++;
    return lost;
}

bool node_has_fenced(const struct node *node, uint64_t incarnation)
{
    for (int i = 0; i < NODE_PAST_MAX; i++)
        if (node->past[i] == incarnation)
            return true;
    return false;
}
