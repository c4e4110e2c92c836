/* Connecting: this rank dials the lower ranks and accepts the higher ones. Each connection proves
 * the generation's secret (handshake.h). The results are sockets; connect.c makes links of them.
 * Lives within one comm_connect, on its thread. */
#ifndef COMM_MEETING_H
#define COMM_MEETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libworker/comm/comm.h"
#include "libworker/comm/endpoint.h"
#include "libworker/comm/handshake.h"
#include "libworker/comm/link_tcp.h"
#include "libworker/comm/segment.h"

struct met {
    int control_fd;                 /* -1 until connected */
    int connections;                /* for data: the smaller of the two wishes, from the handshake
                                     * on */
    int data_fds[COMM_TCP_MAX];     /* of a rank on another host */
    bool settled;                   /* it too has every connection */
    struct segment_handles handles; /* of a rank on the same host */
};

struct meeting {
    const struct comm_options *options;
    struct comm_listener *listener;
    struct credentials self;
    struct segment_handles own;      /* offered to the ranks of this host; the caller keeps them */
    struct met *met;                 /* [world] */
    bool settling;                   /* all ranks have connected to us */
    int64_t started_us, reported_us; /* when the missing ranks were last reported */
    int64_t deadline_ms;
};

int meeting_init(struct meeting *meeting, struct comm_listener *listener,
                 const struct comm_options *options, struct error *err);

/* Closes every descriptor in `met` that is not -1. */
void meeting_fini(struct meeting *meeting);

/* Call after meeting_dial and meeting_accept. Returns when every rank has got this far. A rank
 * therefore cannot leave while another still connects, and a rank that leaves earlier is known to
 * have failed. */
int meeting_settle(struct meeting *meeting, struct error *err);

/* --- for meeting_dial.c and meeting_accept.c */

/* Wait until `fd` is ready for `events`, or for the deadline, cancellation, or the end of a peer.
 */
int meeting_await(struct meeting *meeting, int fd, short events, struct error *err);
int meeting_pause(struct meeting *meeting, int pause_ms, struct error *err);

/* Move exactly `bytes`; WK_EIO if the other side closed. */
int meeting_send(struct meeting *meeting, int fd, const void *data, size_t bytes,
                 struct error *err);
int meeting_recv(struct meeting *meeting, int fd, void *data, size_t bytes, struct error *err);

/* Exchange shared memory with a rank of this host. */
int meeting_exchange_handles(struct meeting *meeting, int peer, struct error *err);
struct met met_nothing(void);

/* True if the peer has made all its connections to us. */
bool meeting_complete(const struct meeting *meeting, int peer);

/* Apply the number of connections that `peer` requests, from the handshake. */
void meeting_agree(struct meeting *meeting, int peer, int connections);
bool meeting_same_host(const struct meeting *meeting, int peer);

#endif
