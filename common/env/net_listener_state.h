/* The state of a listener and of its connections, which net_listener.c, net_peer.c and
 * net_standing.c share; included only by them. Loop thread. */
#ifndef ENV_NET_LISTENER_STATE_H
#define ENV_NET_LISTENER_STATE_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/env/net_service.h"
#include "common/env/net_sp.h"
#include "common/loop/fair.h"
#include "common/loop/loop.h"

enum {
    PEER_READ_BYTES = 64 << 10,       /* at once */
    PEER_READS_MAX = 16,              /* of one connection; then others have their turn */
    PEER_RECORD_BYTES = 16 << 10,     /* answers up to it are one record of TLS */
    PEER_UNSENT_MAX_BYTES = 64 << 20, /* an agent that leaves more answers unread is disconnected */
    PEER_MESSAGES_MAX = 256,          /* of one connection at once, */
    PEER_SLICE_MS = 2,                /* or this much time; then others have their turn */
};

struct handshakes;
struct origin; /* net_standing.c */
struct tls_identity;
struct tls_session;

struct sp_listener {
    struct loop *loop;
    struct net_service service;
    char url[NET_URL_MAX];
    struct net_timeouts timeouts;
    bool unix_socket, closed;
    int fd;
    bool classifies;                  /* the program classifies peers (classify) */
    size_t half[NET_STANDINGS];       /* bytes in all peers' `received` */
    size_t unsent_bytes;              /* of all peers except agents */
    struct strmap origins;            /* address -> struct origin */
    struct peer *serving;             /* the peer of the request that is being handled, or NULL */
    struct list peers;                /* all */
    struct list resting;              /* those that cannot continue now, longest first */
    struct fair fairs[NET_STANDINGS]; /* those that may have sent unread data */
    struct map numbers;               /* number -> struct peer */
    struct map open;                  /* number of a request -> struct request */
    uint64_t last_peer, last_request;
    struct loop_timer sweep, resume, accept;
    struct tls_identity *identity; /* NULL: without TLS; also `handshakes` */
    struct handshakes *handshakes;
    uint8_t bytes[PEER_READ_BYTES];    /* just read; most messages are handled in place */
    uint8_t opened[PEER_READ_BYTES];   /* the same, decrypted */
    uint8_t record[PEER_RECORD_BYTES]; /* an answer being encrypted */
};

struct peer {
    struct sp_listener *listener;
    struct list link, resting, turn;
    struct list requests; /* not answered yet */
    int fd;               /* -1 once the listener is closed */
    bool greeted;
    bool ended; /* its end was seen: earlier data is still read, but nothing is awaited */
    uint64_t number;
    void *data;       /* the program's (net.peer_data) */
    int64_t since_ms; /* accepted, or the unsent data last became less */
    int64_t begun_ms; /* the received part began, or was last read completely */
    enum net_standing standing;
    struct origin *origin;
    bool doomed;            /* no more data of it is read */
    int refusals;           /* since its last valid call */
    int taken;              /* messages in one slice, */
    int64_t slice_until_ms; /* and the end of the slice; read from the clock, not fixed per turn */
    int64_t ready_ms;       /* waiting for its turn since */
    uint64_t whose;         /* the owner that shares time with others */
    int64_t accepted_ms;
    size_t half_bytes, unsent_bytes; /* its part of the listener's sums */
    struct buf received;             /* the start of a message */
    struct buf unsent;               /* from unsent_at on: data that its socket did not accept */
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

#endif
