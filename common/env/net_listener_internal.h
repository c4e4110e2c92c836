/* What a listener (net_listener.c) and its connections (net_peer.c) share; included by them only.
 */
#ifndef ENV_NET_LISTENER_INTERNAL_H
#define ENV_NET_LISTENER_INTERNAL_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/env/net_listener.h"
#include "common/env/net_sp.h"
#include "common/loop/loop.h"

enum {
    PEER_READ_BYTES = 64 << 10,       /* at once */
    PEER_READS_MAX = 16,              /* of one connection, then others have their turn */
    PEER_UNSENT_MAX_BYTES = 64 << 20, /* who leaves more answers unread is hung up on */
    HALF_MAX_BYTES = 256 << 20,       /* of all messages that are not whole; more are hung up on */
};

struct sp_listener {
    struct loop *loop;
    struct net_service service;
    char url[NET_URL_MAX];
    struct net_patience patience;
    bool unix_socket, closed;
    int fd;
    size_t half_bytes;   /* in all peers' `received` */
    struct list peers;   /* all */
    struct list resting; /* those that may have sent what is not read yet, longest first */
    struct map numbers;  /* number -> struct peer */
    struct map open;     /* number of a request -> struct request */
    uint64_t last_peer, last_request;
    struct loop_timer sweep, resume, accept;
    uint8_t bytes[PEER_READ_BYTES]; /* just read; most messages are handled where they lie */
};

struct peer {
    struct sp_listener *listener;
    struct list link, resting;
    struct list requests; /* not answered yet */
    int fd;               /* -1 once the listener is closed */
    bool greeted;
    bool ended; /* its end was told: what it sent before is read, and nothing waited for */
    uint64_t number;
    int64_t since_ms;    /* it was accepted, or what is unsent last became less */
    int64_t begun_ms;    /* what is received began, or was last not asked for more */
    size_t half_bytes;   /* its part of the listener's */
    struct buf received; /* the start of a message */
    struct buf unsent;   /* from unsent_at on: what its socket did not take */
    size_t unsent_at;
    char name[NET_PEER_NAME_MAX];
};

struct request {
    struct list link;
    struct peer *peer;
    uint64_t number;
    size_t trace_bytes;
    uint8_t trace[SP_TRACE_MAX_BYTES];
};

/* Takes over the descriptor; greets. NULL, and it is closed, without memory. */
struct peer *peer_new(struct sp_listener *listener, int fd);
void peer_hang_up(struct peer *peer); /* its descriptor and requests go, it stays */
void peer_free(struct peer *peer);
void peer_gone(struct peer *peer);  /* frees it and tells */
void peer_go_on(struct peer *peer); /* reads and serves what has come; may free it */

/* In front of `bytes` goes what the request says of its way. Never frees the peer. */
void peer_send(struct peer *peer, const struct request *request, const void *bytes, size_t size);

/* Those that rest have their turn as soon as others had theirs. */
void listener_resume_soon(struct sp_listener *listener);

#endif
