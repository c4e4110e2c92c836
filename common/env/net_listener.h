/* Listens at tcp://, tls+tcp:// and ipc:// urls on the loop's own thread. NNG's REQ sockets can
 * connect, but NNG is not used. Its REP needs four thread wake-ups for a request and its answer.
 * That cost the coordinator three quarters of a heartbeat (docs/adr/0007-our-own-listener.md).
 * With TLS other threads run the handshake first (net_handshake.h).
 *
 *     accepted ──(greeting)──► greeted ──(message)──► on_request ──(answer)──► written
 *         │                      │ resting: not read from while max_in_flight requests are open, or
 *         │                      │ its own answers are not all written
 *         └──(10 s)──► closed ◄──┴──(gone; no message; 60 s for a message that is not whole; 30 s
 *                                    without reading an answer)
 *
 * Messages are served in turns (loop/fair.h): agents, callers and strangers each have some time of
 * every turn of the loop. The owners of connections share it, whatever their number of connections.
 *
 * Loop thread only. Each connection is one descriptor watched edge-triggered; an idle one needs
 * some hundred bytes of memory.
 */
#ifndef ENV_NET_LISTENER_H
#define ENV_NET_LISTENER_H

#include <stddef.h>
#include <stdint.h>

#include "common/env/net_service.h"

struct loop;
struct net_address;
struct sp_listener;

int sp_listener_new(struct loop *loop, const struct net_address *address,
                    const struct net_service *service, struct sp_listener **ret, struct error *err);
void sp_listener_free(struct sp_listener *listener); /* NULL allowed; not from its callback */

/* Replace the time limits above. */
void sp_listener_set_timeouts(struct sp_listener *listener, const struct net_timeouts *timeouts);

const char *sp_listener_url(const struct sp_listener *listener); /* tls+tcp://, tcp://, ipc:// */
void sp_listener_answer(struct sp_listener *listener, uint64_t number, const void *bytes,
                        size_t size);
void sp_listener_classify(struct sp_listener *listener, uint64_t number, enum net_standing standing,
                          uint64_t whose);
int64_t sp_listener_peer_uid(const struct sp_listener *listener, uint64_t number);
void sp_listener_peer_name(const struct sp_listener *listener, uint64_t number,
                           char ret[NET_PEER_NAME_MAX]);
/* As net.peer_key. */
void sp_listener_peer_key(const struct sp_listener *listener, uint64_t number,
                          char ret[NET_PEER_KEY_MAX]);
/* As net.peer_data. */
void **sp_listener_peer_data(const struct sp_listener *listener, uint64_t number);
/* Close all connections without notice; no callbacks follow. May be called from a callback. */
void sp_listener_close(struct sp_listener *listener);

#endif
