/* One connection of a listener: reads requests, serves them in its turn, writes answers. Only
 * net_listener.c calls these; loop thread. */
#ifndef ENV_NET_PEER_H
#define ENV_NET_PEER_H

#include "common/env/net_listener_state.h"

/* Takes ownership of the descriptor and the session (NULL: without TLS) and sends the greeting.
 * NULL if memory is out; both are then closed. */
struct peer *peer_new(struct sp_listener *listener, int fd, struct tls_session *tls);
void peer_hang_up(struct peer *peer); /* closes its descriptor and requests; the peer stays */
void peer_free(struct peer *peer);
void peer_lost(struct peer *peer);     /* frees it and calls on_gone */
void peer_continue(struct peer *peer); /* reads and serves arrived data; may free it */
void peer_ready(struct peer *peer);    /* as peer_continue, when it is its turn */

/* The request's trace is sent before `bytes`. Never frees the peer. */
void peer_send(struct peer *peer, const struct request *request, const void *bytes, size_t size);

/* A request was answered or closed: resting peers of the listener may continue. */
void peers_resume_soon(struct sp_listener *listener);

#endif
