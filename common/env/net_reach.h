/* Explains why an RPC address cannot be reached: the transport connects in the background and knows
 * only that it has not. For programs that people wait for; blocks, on any thread. */
#ifndef ENV_NET_REACH_H
#define ENV_NET_REACH_H

#include <stdint.h>

#include "common/base/error.h"

/* 0 if a connection is accepted. E_UNAVAILABLE with a sentence for each case: nothing listens, the
 * host is unknown, no route, silence for `wait_ms`. Returns at once if the cause is clear. */
int net_reach(const char *url, int64_t wait_ms, struct error *err);

/* For an address that accepts connections but does not answer calls. E_UNAVAILABLE if the listener
 * uses another protocol. 0 if it uses ours, or sends nothing within `wait_ms`, because a
 * coordinator may be busy. */
int net_reach_protocol(const char *url, int64_t wait_ms, struct error *err);

#endif
