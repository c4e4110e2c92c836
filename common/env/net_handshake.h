/* Threads that take connections through their TLS handshake, so that the loop need not: ten
 * thousand agents that come back at once cost seconds of computing.
 *
 *     accepted ──add──► in a thread ──done──► on_ready, on the loop
 *                           └──(refused, gone, NET_HANDSHAKE_MS)──► closed
 *
 * A thread that has its share of NET_HANDSHAKES_OPEN_MAX open closes the one that began first for
 * the next. The limit is above the number of agents that come back at once: below it, those that
 * wait for a processor are closed for others that then wait as long, and few come through. A peer
 * that has said nothing yet has no session.
 *
 * All functions: loop thread.
 */
#ifndef ENV_NET_HANDSHAKE_H
#define ENV_NET_HANDSHAKE_H

#include <sys/socket.h>

#include "common/base/error.h"
#include "common/env/tls.h"

struct loop;
struct handshakes;

enum {
    NET_HANDSHAKES_OPEN_MAX = 12288, /* of all threads; at most 3/4 of the descriptors */
    NET_HANDSHAKE_MS = 10000,
    NET_HANDSHAKE_THREADS_MAX = 8, /* at most as many as processors */
};

/* Takes over both. `session` may hold bytes that came after the handshake, and others to send. */
typedef void (*handshake_ready_fn)(void *arg, int fd, struct tls_session *session,
                                   const struct sockaddr_storage *address);

/* `identity` is borrowed. Threads start with the first connection. */
int handshakes_new(struct loop *loop, struct tls_identity *identity, handshake_ready_fn on_ready,
                   void *arg, struct handshakes **ret, struct error *err);
/* Waits for its threads; no callback after it. NULL is fine. */
void handshakes_free(struct handshakes *all);

/* Takes over `fd`, which does not block. Closes it when there is no memory. */
void handshakes_add(struct handshakes *all, int fd, const struct sockaddr_storage *address);

#endif
