/* Requests and answers as bytes, the transport of RPC. Real: net_listener (listeners), net_nng
 * (dialers of tcp:// and ipc://) and net_tls_dialer (of tls+tcp://); simulated: tests/sim (loss,
 * duplication, delay, reordering, partitions).
 *
 * A listener passes each arriving request to its handler with a number. The program answers that
 * number once, at any later time (a long poll simply answers late), from the loop thread. A dialer
 * sends a request and gets exactly one completion: the answer, or an error. Neither retries. All
 * callbacks arrive on the loop thread.
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

/* A listener's program classifies a peer by its calls. */
enum net_standing { NET_STRANGER, NET_CALLER, NET_AGENT, NET_STANDINGS };

/* A request arrived. `bytes` are valid only during the call. `peer` is the number of its
 * connection; it is never reused after net_gone_fn was called for it. */
typedef void (*net_request_fn)(void *arg, uint64_t request, uint64_t peer, const void *bytes,
                               size_t size);

/* A connection is closed: its process died, or the network cut it. Its requests may still be
 * answered; the answers are dropped. */
typedef void (*net_gone_fn)(void *arg, uint64_t peer);

/* The one completion of net.call: code 0 and the answer (valid during the call), or a code:
 * E_UNAVAILABLE (not connected, connection lost), E_DEADLINE_EXCEEDED, E_CANCELLED. */
typedef void (*net_answer_fn)(void *arg, int code, const void *bytes, size_t size);

struct net {
    void *self;
    /* "tcp://127.0.0.1:0" uses a free port; net.listener_url returns it. In-flight requests beyond
     * `max_in_flight` wait in the transport (back pressure), never in our memory. */
    int (*listen)(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                  net_gone_fn on_gone, void *arg, struct net_listener **ret, struct error *err);
    const char *(*listener_url)(struct net_listener *listener);
    /* Answer a request of this listener. Unknown or answered numbers are ignored. Copies bytes. */
    void (*answer)(struct net_listener *listener, uint64_t request, const void *bytes, size_t size);
    /* The address of the other end, as "10.0.0.7"; "" if unknown. May be NULL. */
    void (*peer_name)(struct net_listener *listener, uint64_t peer, char ret[NET_PEER_NAME_MAX]);
    /* The user of the process at the other end of a Unix socket, according to the kernel; -1 if
     * unknown. May be NULL. */
    int64_t (*peer_uid)(struct net_listener *listener, uint64_t peer);
    /* The key that it proved to own, as its pin (tls_file.h); "" if none. May be NULL. */
    void (*peer_key)(struct net_listener *listener, uint64_t peer, char ret[NET_PEER_KEY_MAX]);
    /* A place for one pointer of the program in the connection, initially NULL. It disappears with
     * the connection; the program frees its target. NULL if there is no such connection. May be
     * NULL. */
    void **(*peer_data)(struct net_listener *listener, uint64_t peer);
    /* Report that a call of this peer was valid, or (NET_STRANGER) refused for its token. This
     * decides how much the peer may use and how long it may stay; after some refusals it is
     * disconnected. After the first report (peer 0 is none) all new peers are strangers. Peers of
     * one owner (`whose`, 0 = their own) share that owner's time. May be NULL. */
    void (*classify)(struct net_listener *listener, uint64_t peer, enum net_standing standing,
                     uint64_t whose);
    /* Refuse new requests; the memory is freed with the net. */
    void (*close_listener)(struct net_listener *listener);

    /* Connects in the background and reconnects for ever with jittered backoff (50 ms to 1 s). */
    int (*dial)(void *self, const char *url, struct net_dialer **ret, struct error *err);
    /* Copies bytes. Many calls may be in flight over one dialer, each with its own deadline. */
    int (*call)(struct net_dialer *dialer, const void *bytes, size_t size, int64_t timeout_ms,
                net_answer_fn on_answer, void *arg, struct error *err);
    /* The cause if it is not connected, as far as known: the last failure, or 0 with `ret`
     * unchanged. May be NULL. */
    int (*dial_problem)(struct net_dialer *dialer, struct error *ret);
    /* Completes every pending call with E_CANCELLED and refuses new ones. */
    void (*close_dialer)(struct net_dialer *dialer);
};

#endif
