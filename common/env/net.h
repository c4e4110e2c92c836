/* Requests and answers as bytes: what RPC stands on. Real: net_listener (listeners), net_nng
 * (dialers of tcp:// and ipc://) and net_tls_dialer (of tls+tcp://); simulated: tests/sim (loss,
 * duplication, delay, reordering, partitions).
 *
 * A listener hands each arriving request to its handler with a number; the program answers that
 * number once, at any later time (a long poll simply answers late), from the loop thread. A dialer
 * sends a request and gets exactly one completion: the answer, or an error. Both retry nothing.
 * All callbacks arrive on the loop thread.
 */
#ifndef ENV_NET_H
#define ENV_NET_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum {
    NET_MESSAGE_MAX_BYTES = 8 << 20, /* larger ones are dropped with their connection */
    NET_URL_MAX = 256,
    NET_PEER_NAME_MAX = 64, /* with its NUL */
    NET_PEER_KEY_MAX = 48,
};

struct net_listener;
struct net_dialer;

/* What a listener's program found out of a peer by its calls. */
enum net_standing { NET_STRANGER, NET_CALLER, NET_AGENT, NET_STANDINGS };

/* A request arrived. `bytes` are valid only during the call. `peer` numbers the connection it came
 * over; it is never used again after net_gone_fn was called for it. */
typedef void (*net_request_fn)(void *arg, uint64_t request, uint64_t peer, const void *bytes,
                               size_t size);

/* A connection is gone: its process died, or the network cut it. Its requests may still be
 * answered; the answers go nowhere. */
typedef void (*net_gone_fn)(void *arg, uint64_t peer);

/* The one completion of net.call: code 0 and the answer (valid during the call), or a code:
 * E_UNAVAILABLE (not connected, connection lost), E_DEADLINE_EXCEEDED, E_CANCELLED. */
typedef void (*net_answer_fn)(void *arg, int code, const void *bytes, size_t size);

struct net {
    void *self;
    /* "tcp://127.0.0.1:0" takes a free port; net.listener_url tells which. In-flight requests
     * beyond `max_in_flight` wait in the transport (back pressure), never in our memory. */
    int (*listen)(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                  net_gone_fn on_gone, void *arg, struct net_listener **ret, struct error *err);
    const char *(*listener_url)(struct net_listener *listener);
    /* Answer a request of this listener. Unknown or answered numbers are ignored. Copies bytes. */
    void (*answer)(struct net_listener *listener, uint64_t request, const void *bytes, size_t size);
    /* Who is at the other end, as "10.0.0.7"; "" where nobody can say. May be NULL. */
    void (*peer_name)(struct net_listener *listener, uint64_t peer, char ret[NET_PEER_NAME_MAX]);
    /* The user of the process at the other end of a Unix socket, by the kernel's word; -1 where
     * nobody can say. May be NULL. */
    int64_t (*peer_uid)(struct net_listener *listener, uint64_t peer);
    /* The key that it proved to own, as its pin (tls_key.h); "" where none was. May be NULL. */
    void (*peer_key)(struct net_listener *listener, uint64_t peer, char ret[NET_PEER_KEY_MAX]);
    /* A place for one pointer of the program's own beside the connection, NULL at first. It goes
     * with the connection, what it points to is the program's to free. NULL where there is no such
     * connection. May be NULL. */
    void **(*peer_note)(struct net_listener *listener, uint64_t peer);
    /* A call of this peer was good, or (NET_STRANGER) refused for its token: how much the peer may
     * hold, and how long it may stay, follows from it. After some refusals it is hung up on. From
     * the first such word on (peer 0 is none) all peers are strangers at first. Peers that are the
     * same one's (`whose`, 0 = nobody else's) share the time that one has. May be NULL. */
    void (*judge)(struct net_listener *listener, uint64_t peer, enum net_standing standing,
                  uint64_t whose);
    /* Refuse new requests; memory is kept for life (see docs: NNG 1.5.2 cannot close safely). */
    void (*close_listener)(struct net_listener *listener);

    /* Connects in the background and reconnects for ever with jittered backoff (50 ms to 1 s). */
    int (*dial)(void *self, const char *url, struct net_dialer **ret, struct error *err);
    /* Copies bytes. Many calls may be in flight over one dialer, each with its own deadline. */
    int (*call)(struct net_dialer *dialer, const void *bytes, size_t size, int64_t timeout_ms,
                net_answer_fn on_answer, void *arg, struct error *err);
    /* Why it is not connected, as far as that is known: the last failure, or 0 with `ret`
     * untouched. May be NULL. */
    int (*dial_problem)(struct net_dialer *dialer, struct error *ret);
    /* Completes every pending call with E_CANCELLED and refuses new ones. */
    void (*close_dialer)(struct net_dialer *dialer);
};

#endif
