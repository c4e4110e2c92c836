/* Why an RPC address cannot be reached, in words: the transport connects in the background and only
 * knows that it has not. For programs that people wait for; blocks, on any thread.
 */
#ifndef ENV_NET_REACH_H
#define ENV_NET_REACH_H

#include <stdint.h>

#include "common/base/error.h"

/* 0 if a connection is accepted there. E_UNAVAILABLE with a sentence of its own for each of:
 * nothing listens, the host is unknown, no route, silence for `wait_ms`. At once where it can be
 * known. */
int net_reach(const char *url, int64_t wait_ms, struct error *err);

/* Where connections are accepted but calls get no answer. E_UNAVAILABLE if what listens there
 * speaks another protocol; 0 if it speaks ours, or nothing within `wait_ms`: a coordinator may be
 * busy. */
int net_reach_protocol(const char *url, int64_t wait_ms, struct error *err);

#endif
