#include "coordinator/api_rpc/service_nodes.h"

#include <string.h>

#include "common/base/assert.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/model/cluster_walk.h"

void service_load_nodes(struct service *service)
{
    const struct cluster *cluster = service_cluster(service);
    access_forget_nodes(service->access);
    for (const struct node *node = cluster_first_node(cluster); node;
         node = cluster_next_node(cluster, node))
        if (node->key[0])
            (void)access_put_node(service->access, node->key, node->name, NULL);
    service->nodes_unswept = true;
}

/* In the same turn the node may have joined again. */
void service_forget_node(struct service *service, const char *name, const char *key)
{
    const struct node *node = cluster_node(service_cluster(service), name);
    if (!node || strcmp(node->key, key) != 0)
        access_forget_node(service->access, key);
    if (!node)
        connection_unlink(&service->connections, name);
    service->nodes_unswept = true;
}

static void note_pointer(struct map *pointed_to, const struct store_token *entry)
{
    if (entry)
        insist(map_set(pointed_to, (uint64_t)(uintptr_t)entry, NULL, NULL) == 0);
}

static void free_budget(void *arg, const struct store_token *entry)
{
    budget_forget_node(arg, entry);
}

void service_sweep_nodes(struct service *service)
{
    int64_t now_ms = service_now_ms(service);
    struct map pointed_to = {0};
    if (!service->nodes_unswept || now_ms < service->nodes_sweep_ms)
        return;
    for (struct map_entry *e = map_first(&service->connections.by_peer); e; e = map_next(e))
        note_pointer(&pointed_to, ((const struct connection *)e->value)->node);
    for (struct map_entry *e = map_first(&service->calls); e; e = map_next(e))
        note_pointer(&pointed_to, ((const struct service_call *)e->value)->caller);
    service->nodes_unswept =
        access_free_nodes(service->access, &pointed_to, free_budget, &service->budgets);
    service->nodes_sweep_ms = now_ms + NODES_SWEEP_MS;
    map_fini(&pointed_to);
}
