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
#include "common/loop/fair.h"
#include "common/loop/loop.h"

enum {
    PEER_READ_BYTES = 64 << 10,       /* at once */
    PEER_READS_MAX = 16,              /* of one connection, then others have their turn */
    PEER_RECORD_BYTES = 16 << 10,     /* answers up to it are one record of TLS */
    PEER_UNSENT_MAX_BYTES = 64 << 20, /* an agent that leaves more answers unread is hung up on */
    PEER_MESSAGES_MAX = 256,          /* of one connection at once, */
    PEER_SLICE_MS = 2,                /* or so much time; then others have their turn */
};

struct handshakes;
struct origin; /* net_standing.c */
struct tls_identity;
struct tls_session;

struct sp_listener {
    struct loop *loop;
    struct net_service service;
    char url[NET_URL_MAX];
    struct net_patience patience;
    bool unix_socket, closed;
    int fd;
    bool judges;                      /* it tells what it thinks of peers */
    size_t half[NET_STANDINGS];       /* bytes in all peers' `received` */
    size_t unsent_bytes;              /* of all but agents */
    struct strmap origins;            /* address -> struct origin */
    struct peer *serving;             /* whose request is being handled, or NULL */
    struct list peers;                /* all */
    struct list resting;              /* those that take nothing now, longest first */
    struct fair fairs[NET_STANDINGS]; /* those that may have sent what is not read yet */
    struct map numbers;               /* number -> struct peer */
    struct map open;                  /* number of a request -> struct request */
    uint64_t last_peer, last_request;
    struct loop_timer sweep, resume, accept;
    struct tls_identity *identity; /* NULL: without TLS, as the next */
    struct handshakes *handshakes;
    uint8_t bytes[PEER_READ_BYTES];    /* just read; most messages are handled where they lie */
    uint8_t opened[PEER_READ_BYTES];   /* the same, decrypted */
    uint8_t record[PEER_RECORD_BYTES]; /* an answer that is being encrypted */
};

struct peer {
    struct sp_listener *listener;
    struct list link, resting, turn;
    struct list requests; /* not answered yet */
    int fd;               /* -1 once the listener is closed */
    bool greeted;
    bool ended; /* its end was told: what it sent before is read, and nothing waited for */
    uint64_t number;
    void *note;       /* the program's (net.peer_note) */
    int64_t since_ms; /* it was accepted, or what is unsent last became less */
    int64_t begun_ms; /* what is received began, or was last not asked for more */
    enum net_standing standing;
    struct origin *origin;
    bool doomed;            /* nothing of it is read any more */
    int refusals;           /* since its last good call */
    int taken;              /* messages at once, */
    int64_t slice_until_ms; /* and until when more are taken; of the clock, not of the turn */
    int64_t ready_ms;       /* it has waited for its turn since */
    uint64_t whose;         /* who shares its time with others */
    int64_t accepted_ms;
    size_t half_bytes, unsent_bytes; /* its part of the listener's */
    struct buf received;             /* the start of a message */
    struct buf unsent;               /* from unsent_at on: what its socket did not take */
    size_t unsent_at;
    struct tls_session *tls; /* NULL: without TLS */
    char name[NET_PEER_NAME_MAX];
    int64_t uid; /* of a Unix socket's other end, else -1 */
    char key[NET_PEER_KEY_MAX];
};

struct request {
    struct list link;
    struct peer *peer;
    uint64_t number;
    size_t trace_bytes;
    uint8_t trace[SP_TRACE_MAX_BYTES];
};

/* Takes over the descriptor and the session (NULL: without TLS); greets. NULL, and both are gone,
 * without memory. */
struct peer *peer_new(struct sp_listener *listener, int fd, struct tls_session *tls);
void peer_hang_up(struct peer *peer); /* its descriptor and requests go, it stays */
void peer_free(struct peer *peer);
void peer_gone(struct peer *peer);  /* frees it and tells */
void peer_go_on(struct peer *peer); /* reads and serves what has come; may free it */
void peer_ready(struct peer *peer); /* as peer_go_on, as soon as it is its turn */

/* In front of `bytes` goes what the request says of its way. Never frees the peer. */
void peer_send(struct peer *peer, const struct request *request, const void *bytes, size_t size);

/* Something was answered, or is gone: those that rest may take more. */
void listener_resume_soon(struct sp_listener *listener);

#endif
