/* The service's record of a connection between its calls: the reads that end with it and, after its
 * agent has called, the proved key, its node and that node's budget. A heartbeat finds all of these
 * here without a search.
 *
 *       transport's peer ──data──► connection ──link──► agent_link (one per known node)
 *                                       └──node──► the node's entry in access (kept meanwhile)
 *
 * A connection is found by its data, a pointer that the transport stores for it. Without it (in
 * simulation) it is found by its number. The key of a connection never changes, and entries of
 * nodes and budgets keep their place in memory, so pointers here stay valid. A removed key is
 * marked in its entry.
 *
 * Owned by the service; loop thread only. REST has no connections here (peer 0).
 */
#ifndef API_RPC_CONNECTION_H
#define API_RPC_CONNECTION_H

#include <stdint.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

struct budget;
struct connection;

struct agent_link {                /* the connection of a node's agent */
    struct connection *connection; /* NULL: none at present */
    uint64_t incarnation;
    char node[NAME_LENGTH_MAX + 1];
};

struct connection {
    uint64_t peer;
    struct list reads;              /* struct service_call: ended with the connection */
    const struct store_token *node; /* identified by the proved key; NULL = unknown */
    struct budget *budget;          /* of that node; NULL = not searched yet */
    struct agent_link *link;        /* NULL: it belongs to no node */
};

struct connections {     /* zeroed memory is empty */
    struct map by_peer;  /* struct connection */
    struct strmap links; /* node -> struct agent_link */
};

void connections_fini(struct connections *connections);

/* `peer_data` may be NULL. NULL if the connection is unknown, or `peer` is 0. */
struct connection *connection_find(const struct connections *connections, uint64_t peer,
                                   void *const *peer_data);
/* The same, but creates it; NULL for peer 0 or if memory is out. */
struct connection *connection_get(struct connections *connections, uint64_t peer, void **peer_data);

/* Make it the node's connection instead of any other. If memory is out nothing changes: the node's
 * end is then noticed later, by its lease. */
void connection_link(struct connections *connections, struct connection *connection,
                     const char *node, uint64_t incarnation);

/* Forget the node's link; its connection belongs to no node any more. */
void connection_unlink(struct connections *connections, const char *node);

/* Remove it. The caller ends its reads, then frees it. *ret_link is its node's link, or NULL. NULL
 * if it is unknown. */
struct connection *connection_remove(struct connections *connections, uint64_t peer,
                                     const struct agent_link **ret_link);

#endif
