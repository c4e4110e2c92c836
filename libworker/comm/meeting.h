/* Getting connected: this rank dials the lower ranks and accepts the higher ones, each connection
 * proving the generation's secret (handshake.h). Ends in sockets; connect.c makes links of them.
 * Lives within one comm_connect, on its thread.
 */
#ifndef COMM_MEETING_H
#define COMM_MEETING_H

#include "libworker/comm/comm_internal.h"
#include "libworker/comm/endpoint.h"
#include "libworker/comm/handshake.h"
#include "libworker/comm/segment.h"

struct met {
    int control_fd;                 /* -1 until connected */
    int connections;                /* for data: the fewer of what both want, known from then on */
    int data_fds[COMM_TCP_MAX];     /* of a rank of another host */
    bool settled;                   /* it has every connection too */
    struct segment_handles handles; /* of a rank of the same host */
};

struct meeting {
    const struct comm_options *options;
    struct comm_listener *listener;
    struct credentials self;
    struct segment_handles own;  /* offered to the ranks of this host; stay the caller's */
    struct met *met;             /* [world] */
    bool settling;               /* everybody has connected to us */
    int64_t started_us, told_us; /* when it was last told who is missing */
    int64_t deadline_ms;
};

int meeting_init(struct meeting *meeting, struct comm_listener *listener,
                 const struct comm_options *options, struct error *err);

/* Closes every descriptor in `met` that is not -1. */
void meeting_fini(struct meeting *meeting);

/* Errors as comm_connect. */
int meeting_dial(struct meeting *meeting, int peer, struct error *err);
int meeting_accept(struct meeting *meeting, struct error *err);

/* After both: returns when every rank has got so far. So nobody can leave while another is still
 * connecting, and whoever goes away before is known to have failed. */
int meeting_settle(struct meeting *meeting, struct error *err);

/* --- for both halves (meeting.c) */

/* Wait till `fd` is ready for `events`, the deadline, cancellation, or the end of a peer. */
int meeting_await(struct meeting *meeting, int fd, short events, struct error *err);
int meeting_pause(struct meeting *meeting, int pause_ms, struct error *err);

/* Move exactly `bytes`; WK_EIO when the other side hung up. */
int meeting_send(struct meeting *meeting, int fd, const void *data, size_t bytes,
                 struct error *err);
int meeting_recv(struct meeting *meeting, int fd, void *data, size_t bytes, struct error *err);

/* Hand our shared memory to a rank of this host and take its own. */
int meeting_trade_handles(struct meeting *meeting, int peer, struct error *err);
struct met met_nothing(void);

/* It has connected to us in every way it has to. */
bool meeting_complete(const struct meeting *meeting, int peer);

/* What `peer` said in the handshake that it wants. */
void meeting_agree(struct meeting *meeting, int peer, int connections);
bool meeting_same_host(const struct meeting *meeting, int peer);

#endif
