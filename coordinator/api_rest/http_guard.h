/* Limits on HTTP connections: their number per address, and the time without a request. MHD's
 * timeout counts only silence, so that a byte now and then would keep a connection for ever. When
 * places run low, the address with the most connections loses the one that has waited longest for a
 * request. There is then always a place for /healthz and for others.
 *
 *      fresh ──(request begun)──► busy ──(answered)──► idle ──(request begun)──► busy
 *        └──(10 s)──► closed                             └──(40 s)──► closed
 *
 * A TLS handshake is part of the time until the first request.
 *
 * Owned by the HTTP server; the HTTP thread reports connections, the loop thread sweeps: all
 * functions lock. A descriptor is only shut down here; MHD closes it.
 */
#ifndef API_REST_HTTP_GUARD_H
#define API_REST_HTTP_GUARD_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/env/env.h"
#include "common/env/tls_web.h"

enum {
    GUARD_FRESH_MS =
        MAX_HTTP_REQUEST_S * 1000, /* until the headers of its first request are whole */
    GUARD_IDLE_MS = 40000,         /* from an answer to the next request */
    GUARD_BODY_MS = 60000,         /* from the headers to the end of the body */
    GUARD_SWEEP_MS = 1000,
};

enum guard_state { GUARD_FRESH, GUARD_IDLE, GUARD_BODY, GUARD_BUSY };

struct guard {
    struct clock clock;
    pthread_mutex_t mutex;
    struct list waiting, busy; /* those that may be closed, longest waiting first; the others */
    struct strmap addresses;   /* text -> struct address */
    struct tls_web *tls;       /* NULL: connections are plain */
    int count, most;           /* connections; from `most` on others make room */
    uint64_t evicted, late;    /* closed for others; closed for their own slowness */
};

/* At most a quarter of the descriptors: RPC and files need the others. Some of these places are for
 * connections that were closed but not released yet. */
unsigned guard_connections_max(void);

void guard_init(struct guard *guard);
void guard_fini(struct guard *guard);

/* MHD_NotifyConnectionCallback: `arg` is the guard. */
void guard_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                         enum MHD_ConnectionNotificationCode what);
void guard_request(struct guard *guard, struct MHD_Connection *connection, enum guard_state state);
void guard_sweep(struct guard *guard);

/* The client's address without its port, "" if it is not known. */
void guard_peer(struct MHD_Connection *connection, char ret[INET6_ADDRSTRLEN]);

#endif
