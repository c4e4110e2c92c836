#include "coordinator/api_rpc/connection.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

void connections_fini(struct connections *connections)
{
    map_free_values(&connections->by_peer);
    strmap_free_values(&connections->links);
}

struct connection *connection_find(const struct connections *connections, uint64_t peer,
                                   void *const *peer_data)
{
    if (peer_data)
        return *peer_data;
    return peer ? map_get(&connections->by_peer, peer) : NULL;
}

struct connection *connection_get(struct connections *connections, uint64_t peer, void **peer_data)
{
    struct connection *connection = connection_find(connections, peer, peer_data);
    if (connection || peer == 0)
        return connection;
    connection = malloc(sizeof(*connection));
    if (!connection || map_set(&connections->by_peer, peer, connection, NULL)) {
        free(connection);
        return NULL;
    }
    *connection = (struct connection){.peer = peer};
    list_init(&connection->reads);
    if (peer_data)
        *peer_data = connection;
    return connection;
}

static struct agent_link *link_get(struct connections *connections, const char *node)
{
    struct agent_link *link = strmap_get(&connections->links, node);
    if (link)
        return link;
    link = calloc(1, sizeof(*link));
    if (!link || strmap_set(&connections->links, node, link, NULL)) {
        free(link);
        return NULL;
    }
    (void)str_copy(link->node, sizeof(link->node), node);
    return link;
}

void connection_link(struct connections *connections, struct connection *connection,
                     const char *node, uint64_t incarnation)
{
    struct agent_link *link = connection->link;
    if (!link || strcmp(link->node, node) != 0)
        link = link_get(connections, node);
    if (!link)
        return;
    link->incarnation = incarnation;
    if (link->connection == connection)
        return;
    if (link->connection)
        link->connection->link = NULL;
    if (connection->link)
        connection->link->connection = NULL;
    link->connection = connection;
    connection->link = link;
}

void connection_unlink(struct connections *connections, const char *node)
{
    struct agent_link *link = strmap_remove(&connections->links, node);
    if (link && link->connection)
        link->connection->link = NULL;
    free(link);
}

struct connection *connection_remove(struct connections *connections, uint64_t peer,
                                     const struct agent_link **ret_link)
{
    struct connection *connection = map_remove(&connections->by_peer, peer);
    if (!connection)
        return NULL;
    *ret_link = connection->link;
    if (connection->link)
        connection->link->connection = NULL;
    return connection;
}
