/* The channels that an agent should have open, in Poll's answer. Loop thread only. */
#ifndef API_RPC_TERMINAL_CALLS_H
#define API_RPC_TERMINAL_CALLS_H

#include "common/base/arena.h"
#include "coordinator/api_rpc/open_call.h"
#include "proto/node.pb-c.h"

/* True if the agent knows another list than the present one. False for agents that open none. */
bool service_terminals_differ(struct service *service, const Muster__NodePollRequest *message);

/* False if memory is out. */
bool service_fill_terminals(struct service *service, struct arena *arena,
                            const Muster__NodePollRequest *message, Muster__NodePollAnswer *ret);

#endif
