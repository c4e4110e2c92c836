/* What the service keeps of nodes beside the cluster: an entry for each key (access.h), the link to
 * its connection, its budget. Kept as long as the node is known; after that until no connection and
 * no open call points to it. Loop thread only. */
#ifndef API_RPC_SERVICE_NODES_H
#define API_RPC_SERVICE_NODES_H

struct service;

enum { NODES_SWEEP_MS = 10000 }; /* between two searches for entries that can be freed */

/* Load the keys of nodes from the cluster. */
void service_load_nodes(struct service *service);

/* The node was forgotten: its key identifies no node any more. */
void service_forget_node(struct service *service, const char *name, const char *key);

/* Free what is left of forgotten nodes and removed keys, if it is time. */
void service_sweep_nodes(struct service *service);

#endif
