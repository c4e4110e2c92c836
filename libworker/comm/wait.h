/* Waiting for peers: poll for a while, because an answer is often a microsecond away. Then sleep in
 * one epoll with all sources: the bell (rings in shared memory, abort), data sockets, control
 * sockets, the ends of processes. Only the thread that runs an operation calls these, and the one
 * that connects. */
#ifndef COMM_WAIT_H
#define COMM_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/comm/comm.h"

struct wait {
    int64_t started_us, deadline_ms;
    int64_t spin_start_us;    /* 0: not yet */
    int64_t waiting_since_us; /* the same, but sleeping does not reset it */
    unsigned turns;           /* turns since something moved */
    unsigned moves;           /* turns that moved something */
    bool yields;              /* spinning has turned into yielding the core */
    bool mismatched;          /* a needed rank waits in another operation: one more turn */
    bool armed;               /* `asleep` is set: one more turn, then sleep */
};

/* How long to poll: not at all if ranks share cores. */
int comm_spin_us(const struct comm_options *options);

/* Add a peer's descriptors to the epoll, once, when it is connected. 0 or WK_E... */
int wait_watch(struct wk_comm *comm, int peer);
int wait_watch_data(struct wk_comm *comm, int peer, int data_fd);

/* Handle all messages since the last operation; returns the failure, or 0. */
int wait_handle_messages(struct wk_comm *comm);

/* The same within long work: only of ranks on this host that have alerted us, in a few nanoseconds.
 */
int wait_check_alert(struct wk_comm *comm);
void wait_begin(struct wk_comm *comm, struct wait *wait);

/* The last turn moved something. */
void wait_moved(struct wk_comm *comm, struct wait *wait);

/* Nothing moved: spin, or sleep until something can move. 0, or the code of the failure. */
int wait_more(struct wk_comm *comm, struct wait *wait);
void wait_end(struct wk_comm *comm, struct wait *wait);

#endif
