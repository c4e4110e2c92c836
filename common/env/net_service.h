/* The user of a listener: who receives its requests, and what its peers may use. */
#ifndef ENV_NET_SERVICE_H
#define ENV_NET_SERVICE_H

#include <stdint.h>

#include "common/env/net.h"

enum { /* of each turn of the loop: for messages of each kind of peer */
       NET_STRANGERS_TURN_MS = 5,
       NET_CALLERS_TURN_MS = 10,
       NET_AGENTS_TURN_MS = 25,
};

struct net_service { /* the receiver of requests, as in net.listen */
    int max_in_flight;
    net_request_fn on_request;
    net_gone_fn on_gone; /* NULL is fine */
    void *arg;
};

struct net_timeouts { /* time limits for idle peers, checked every sweep_ms */
    int64_t greeting_ms, stranger_ms, message_ms, answer_ms, sweep_ms;
};

#endif
