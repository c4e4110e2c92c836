#include "coordinator/model/node.h"

#include <stdlib.h>
#include <string.h>

void node_free(struct node *node)
{
    if (!node)
        return;
    map_fini(&node->jobs);
    free(node);
}

bool node_holds(const struct node *node, int slot)
{
    return slot < node->gpus_count && node->gpus[slot].held;
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

bool node_has_fenced(const struct node *node, uint64_t incarnation)
{
    for (int i = 0; i < NODE_PAST_MAX; i++)
        if (node->past[i] == incarnation)
            return true;
    return false;
}
