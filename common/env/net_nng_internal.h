/* Dialing with NNG: shared by the net_nng files, the base of net_os and net_local. */
#ifndef ENV_NET_NNG_INTERNAL_H
#define ENV_NET_NNG_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include <nng/nng.h>

#include "common/base/error.h"
#include "common/base/list.h"
#include "common/env/net.h"

struct loop;

enum {
    SP_HEADER_BYTES = 64, /* request ids before a message */
};

/* An event on a thread of NNG, to be handled on the loop. Embedded by its owner, in the inbox at
 * most once at a time. */
struct net_event {
    struct list link;
    void (*handle)(struct net_event *self);
};

struct net_nng {
    struct loop *loop;
    pthread_mutex_t lock; /* of the inbox; never held while calling NNG */
    struct list inbox;
    bool waking;   /* a drain is in the loop's mailbox */
    bool silenced; /* after net_nng_free */
    bool used;     /* a socket was opened and may call back for ever */
};

/* Any thread. */
void net_nng_push(struct net_nng *net, struct net_event *it);

struct nng_dialing;

/* After free everything is silent: no callback and no post to the loop. NULL if memory is out;
 * freeing NULL is allowed. */
struct net_nng *net_nng_new(struct loop *loop);
void net_nng_free(struct net_nng *net);

/* Fill `err` with "<what> <url>: <NNG's message>" and return the nearest code. */
int net_nng_fail(struct error *err, int rv, const char *what, const char *url);

/* Start NNG's threads, only as many as are useful (net_nng_threads.c), before any other call of
 * NNG. May be repeated. 0 or NNG's code. */
int net_nng_start(void);

/* Does nothing; calling it links net_nng_epipe.c, which explains why. */
void net_nng_mend_epipe(void);

/* Dialing without TLS; as net.dial, call and close_dialer. Never freed. */
int nng_dialing_new(struct net_nng *net, const char *url, struct nng_dialing **ret,
                    struct error *err);
int nng_dialing_call(struct nng_dialing *d, const void *bytes, size_t size, int64_t timeout_ms,
                     net_answer_fn on_answer, void *arg, struct error *err);
void nng_dialing_close(struct nng_dialing *d);

#endif
