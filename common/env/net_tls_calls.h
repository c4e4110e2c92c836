/* A TLS dialer's record of its calls: their frames, until those are sent. Included by
 * net_tls_dialer.c only; loop thread. */
#ifndef ENV_NET_TLS_CALLS_H
#define ENV_NET_TLS_CALLS_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/env/net_calls.h"

struct tls_call {
    struct net_call call; /* first */
    struct list link;     /* in the dialer's queue */
    struct buf frame;     /* empty once sent */
    bool sent;
};

/* A call that is counted and timed, with its frame; not in the queue yet. Errors as net.call. */
int tls_call_new(struct net_calls *calls, const void *bytes, size_t size,
                 const struct net_call_how *how, struct tls_call **ret, struct error *err);

/* As in net_calls_owner. */
bool tls_call_was_sent(const struct net_call *call);
void tls_call_withdraw(struct net_call *call);
void tls_call_release(struct net_call *call);

/* Every call that was sent is E_UNAVAILABLE. */
void tls_calls_lose_sent(struct net_calls *calls);

#endif
