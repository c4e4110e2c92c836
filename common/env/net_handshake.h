/* Threads that run the TLS handshakes of new connections instead of the loop: ten thousand agents
 * that reconnect at once cost seconds of computing.
 *
 *       accepted ──add──► in a thread ──done──► on_ready, on the loop
 *                             └──(refused, gone, NET_HANDSHAKE_MS)──► closed
 *
 * A thread with its share of NET_HANDSHAKES_OPEN_MAX open handshakes closes the oldest for a new
 * one. The limit is above the number of agents that reconnect at once. With a lower one, handshakes
 * that wait for a processor would be closed for others that then wait as long, and few would
 * complete. A peer that has sent nothing yet has no session.
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
    NET_HANDSHAKE_THREADS_MAX = 8, /* at most the number of processors */
};

/* Takes ownership of both. `session` may have received bytes after the handshake, and others to
 * send. */
typedef void (*handshake_ready_fn)(void *arg, int fd, struct tls_session *session,
                                   const struct sockaddr_storage *address);

/* `identity` is borrowed. Threads start with the first connection. */
int handshakes_new(struct loop *loop, struct tls_identity *identity, handshake_ready_fn on_ready,
                   void *arg, struct handshakes **ret, struct error *err);
/* Waits for its threads; no callbacks follow. NULL is allowed. */
void handshakes_free(struct handshakes *all);

/* Takes ownership of `fd`, which is non-blocking. Closes it if memory is out. */
void handshakes_add(struct handshakes *all, int fd, const struct sockaddr_storage *address);

#endif
