/* What the service knows of a connection between its calls: the reads that end with it, and, once
 * its agent has spoken, whose key it proved, the node it speaks for and that node's budget. A beat
 * finds all of these here and looks nothing up.
 *
 *     transport's peer ──note──► connection ──link──► agent_link (one per node, kept for life)
 *                                     └──node──► the node's entry in access (kept for life)
 *
 * A connection is found by its note, a pointer that the transport keeps for it; without one (in
 * simulation), by its number. The key of a connection never changes, and entries of nodes and their
 * budgets keep their place in memory, so nothing here goes stale: a key that was taken back is
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

struct agent_link {                /* which connection speaks for a node */
    struct connection *connection; /* NULL: none at this time */
    uint64_t incarnation;
    char node[NODE_NAME_MAX + 1];
};

struct connection {
    uint64_t peer;
    struct list reads;              /* struct service_call: they end with the connection */
    const struct store_token *node; /* whose key it proved; NULL = not known */
    struct budget *budget;          /* of that node; NULL = not looked up yet */
    struct agent_link *link;        /* NULL: it speaks for no node */
};

struct connections {     /* zeroed memory has none */
    struct map by_peer;  /* struct connection */
    struct strmap links; /* node -> struct agent_link */
};

void connections_fini(struct connections *connections);

/* `note` may be NULL. NULL if nothing is known of it, or `peer` is 0. */
struct connection *connection_find(const struct connections *connections, uint64_t peer,
                                   void *const *note);
/* The same, made where there is none; NULL for peer 0 or without memory. */
struct connection *connection_get(struct connections *connections, uint64_t peer, void **note);

/* From now on it speaks for that node, in place of any other connection. Without memory nothing
 * changes: the node's lease tells of its end, only later. */
void connection_link(struct connections *connections, struct connection *connection,
                     const char *node, uint64_t incarnation);

/* Take it out: the caller ends its reads, then frees it. *ret_link is what it spoke for, or NULL.
 * NULL if it is not known. */
struct connection *connection_remove(struct connections *connections, uint64_t peer,
                                     const struct agent_link **ret_link);

#endif
