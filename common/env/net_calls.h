/* The calls of a dialer, for every transport: numbered as in SP, timed, completed once.
 *
 *       added ──► queued ──(the dialer sends it)──► sent ──► completed: its answer
 *                    ├── not connected for 250 ms: E_UNAVAILABLE
 *                    ├── deadline: E_DEADLINE_EXCEEDED, or E_UNAVAILABLE where it never was sent
 *                    └── connection lost, dialer closed: E_UNAVAILABLE, E_CANCELLED
 *
 * If a sent call expires on a connection that has been silent for 5 s, the connection is ended. TCP
 * would keep a silently cut connection for minutes.
 *
 * Embedded in a dialer; a call is embedded in the dialer's own record of it. Loop thread only.
 */
#ifndef ENV_NET_CALLS_H
#define ENV_NET_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/map.h"
#include "common/env/net.h"
#include "common/loop/loop.h"

struct net_calls;

struct net_call {
    struct net_calls *calls;
    uint32_t id; /* as in the message's header */
    int64_t started_ms, deadline_ms;
    struct loop_timer timer;
    net_answer_fn on_answer;
    void *arg;
};

struct net_calls_owner { /* callbacks to the dialer */
    bool (*connected)(struct net_calls *calls);
    bool (*sent)(const struct net_call *call);
    /* It is about to be completed: remove its unsent part from the queue. */
    void (*withdraw)(struct net_call *call);
    void (*release)(struct net_call *call); /* its memory */
    void (*cut)(struct net_calls *calls);   /* ends the connection */
};

struct net_calls {
    const struct net_calls_owner *owner;
    struct loop *loop;
    struct map all; /* id -> struct net_call: the incomplete ones */
    uint32_t last_id;
    int64_t heard_ms; /* the connection's last sign of life; set by the dialer */
    bool closed;
};

struct net_call_how {
    int64_t timeout_ms;
    net_answer_fn on_answer;
    void *arg;
};

void net_calls_init(struct net_calls *calls, const struct net_calls_owner *owner,
                    struct loop *loop);
void net_calls_fini(struct net_calls *calls); /* after net_calls_close */

/* E_CANCELLED once closed, E_OUT_OF_RANGE for a message that is too large. */
int net_calls_check(const struct net_calls *calls, size_t size, struct error *err);
/* A number that no open call has. */
uint32_t net_calls_number(struct net_calls *calls);
/* Start the time of a call; its `id` is set. E_RESOURCE_EXHAUSTED: it was not added. */
int net_calls_add(struct net_calls *calls, struct net_call *call, const struct net_call_how *how);

struct net_call *net_calls_find(const struct net_calls *calls, uint32_t id); /* or NULL */
/* Remove it, call its callback and release it. The callback may make calls and close all. */
void net_call_complete(struct net_call *call, int code, const void *bytes, size_t size);
/* Complete with E_UNAVAILABLE those for which `over` returns true. */
void net_calls_lose(struct net_calls *calls,
                    bool (*over)(const struct net_call *call, uint64_t connection),
                    uint64_t connection);
/* Complete all with E_CANCELLED and accept no more. */
void net_calls_close(struct net_calls *calls);

#endif
