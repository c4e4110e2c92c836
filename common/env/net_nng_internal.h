/* The private half of net_nng, shared by its files: the way from NNG's threads to the loop,
 * and the reading of addresses. Included by them only.
 */
#ifndef ENV_NET_NNG_INTERNAL_H
#define ENV_NET_NNG_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include <nng/nng.h>

#include "common/base/error.h"
#include "common/base/list.h"
#include "common/env/net.h"
#include "common/env/net_listener.h"

struct loop;

enum {
    SP_HEADER_BYTES = 64, /* request ids in front of a message */
    TLS_FILE_MAX = 256,
};

/* Something that happened on a thread of NNG, to be handled on the loop. Embedded by its owner, in
 * the inbox at most once at a time. */
struct happening {
    struct list link;
    void (*handle)(struct happening *self);
};

struct net_nng {
    struct loop *loop;
    struct list listeners;
    pthread_mutex_t lock; /* of the inbox; never held while calling NNG */
    struct list inbox;
    bool waking;   /* a drain is in the loop's mailbox */
    bool silenced; /* after net_nng_fini */
    bool used;     /* a socket was opened and may call back for ever */
};

/* Any thread. */
void net_nng_push(struct net_nng *net, struct happening *it);

struct net_listener { /* one of the two */
    struct list link;
    struct sp_listener *sp;    /* tcp, ipc */
    struct nng_listening *nng; /* with TLS */
};

/* An url apart from the query that says how TLS is done. */
struct net_nng_address {
    char url[NET_URL_MAX];
    char ca[TLS_FILE_MAX];
    char cert[TLS_FILE_MAX];
    char name[TLS_FILE_MAX];
};

int net_nng_address_parse(const char *text, struct net_nng_address *ret, struct error *err);

/* Fill `err` with "<what> <url>: <NNG's words>" and return the nearest code. */
int net_nng_fail(struct error *err, int rv, const char *what, const char *url);

/* Starts NNG's threads, only as many as pay (net_nng_threads.c); before any other call of NNG.
 * Again is fine. 0 or NNG's code. */
int net_nng_start(void);

/* Does nothing; a call to it links net_nng_epipe.c, which says what it is for. */
void net_nng_mend_epipe(void);

/* Listening with TLS; as the functions of sp_listener, and never freed. */
struct nng_listening;
int nng_listening_new(struct net_nng *net, const struct net_nng_address *address,
                      const struct net_service *service, struct nng_listening **ret,
                      struct error *err);
const char *nng_listening_url(const struct nng_listening *l);
void nng_listening_answer(struct nng_listening *l, uint64_t request, const void *bytes,
                          size_t size);
void nng_listening_peer_name(struct nng_listening *l, uint64_t number, char ret[NET_PEER_NAME_MAX]);
void nng_listening_close(struct nng_listening *l);

/* The slots of struct net. */
int net_nng_dial(void *self, const char *url, struct net_dialer **ret, struct error *err);
int net_nng_call(struct net_dialer *d, const void *bytes, size_t size, int64_t timeout_ms,
                 net_answer_fn on_answer, void *arg, struct error *err);
void net_nng_close_dialer(struct net_dialer *d);

#endif
