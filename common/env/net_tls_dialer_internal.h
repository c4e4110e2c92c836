/* Shared by dialing (net_tls_dialer.c) and its calls (net_tls_calls.c); included only by them. */
#ifndef ENV_NET_TLS_DIALER_INTERNAL_H
#define ENV_NET_TLS_DIALER_INTERNAL_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/env/net_calls.h"
#include "common/env/net_tls_dialer.h"
#include "common/env/net_url.h"
#include "common/loop/loop.h"

struct addrinfo;
struct resolving;
struct tls_identity;
struct tls_session;

enum { TLS_READ_BYTES = 16 << 10 }; /* a record of TLS */

enum tls_dialer_state { IDLE, RESOLVING, CONNECTING, PROVING, GREETING, CONNECTED };

struct tls_dialer {
    struct loop *loop;
    char url[NET_URL_MAX]; /* for messages */
    char host[NET_URL_MAX], port[NET_URL_MAX];
    char pins[NET_PINS_TEXT_MAX];
    struct tls_identity *identity;
    enum tls_dialer_state state;
    struct resolving *resolving;
    struct addrinfo *addresses, *at; /* found ones, and the one being tried */
    int fd;                          /* -1 before CONNECTING */
    struct tls_session *tls;
    struct buf ticket;   /* for resuming; empty if there is none */
    struct buf received; /* of the program, not processed yet */
    struct loop_timer again, late, go_on;
    int64_t again_ms;
    struct error problem;
    struct net_calls calls;
    struct list queue; /* those not sent yet */
};

struct tls_call {
    struct net_call call; /* first */
    struct list link;     /* in the queue */
    struct buf frame;     /* empty once sent */
    bool sent;
};

extern const struct net_calls_owner tls_calls_owner;
/* Every call that was sent is E_UNAVAILABLE. */
void tls_calls_lost(struct tls_dialer *dialer);

/* Send as much of the queue as the connection accepts. False: the connection is broken. */
bool tls_dialer_send_queue(struct tls_dialer *dialer);
void tls_dialer_send_soon(struct tls_dialer *dialer); /* the same, on the loop */
void tls_dialer_lost(struct tls_dialer *dialer);

#endif
