/* Which node an agent's call speaks for, and what is durable when it is answered. Loop thread only.
 */
#ifndef API_RPC_NODE_CALLS_H
#define API_RPC_NODE_CALLS_H

#include <stdint.h>

#include "coordinator/api_rpc/open_call.h"
#include "coordinator/model/cluster.h"

/* The node, if this call's agent may report for it; otherwise NULL with err set. */
const struct node *service_reporting_node(struct service_call *call, const char *name,
                                          uint64_t incarnation, struct error *err);

uint64_t service_newest_event(const struct service *service); /* the newest that is durable */

#endif
