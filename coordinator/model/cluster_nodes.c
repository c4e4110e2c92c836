#include "coordinator/model/cluster_nodes.h"

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_internal.h"
#include "coordinator/model/cluster_timers.h"

int cluster_nodes_let_in_by(const struct cluster *cluster, const char *token)
{
    return (int)(intptr_t)strmap_get(&cluster->let_in, token);
}

/* Nodes from before tokens were kept count for no token. */
static int count_let_in(struct cluster *cluster, const char *token, int by)
{
    intptr_t count = cluster_nodes_let_in_by(cluster, token) + by;
    if (!token[0])
        return 0;
    insist(count >= 0);
    if (count > 0)
        return strmap_set(&cluster->let_in, token, (void *)count, NULL);
    strmap_remove(&cluster->let_in, token);
    return 0;
}

int cluster_add_node(struct cluster *cluster, struct node *node, struct error *err)
{
    if (strmap_count(&cluster->nodes) >= CLUSTER_NODES_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "the cluster can have at most %d nodes",
                         CLUSTER_NODES_MAX);
    if (cluster_node(cluster, node->name))
        return error_set(err, E_ALREADY_EXISTS, "node '%s' exists", node->name);
    if (strmap_set(&cluster->nodes, node->name, node, NULL))
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    insist(count_let_in(cluster, node->let_in_by, 1) == 0);
    node->entry = strmap_find(&cluster->nodes, node->name);
    return 0;
}

void cluster_set_let_in_by(struct cluster *cluster, struct node *node, const char *token)
{
    insist(count_let_in(cluster, node->let_in_by, -1) == 0);
    (void)str_copy(node->let_in_by, sizeof(node->let_in_by), token);
    insist(count_let_in(cluster, node->let_in_by, 1) == 0);
}

void cluster_remove_node(struct cluster *cluster, struct node *node)
{
    insist(node->state == NODE_LOST);
    never(map_first(&node->jobs));
    insist(count_let_in(cluster, node->let_in_by, -1) == 0);
    cluster_wake_node(cluster, node, INT64_MAX);
    strmap_remove(&cluster->nodes, node->name);
    node_free(node);
}
