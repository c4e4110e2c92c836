/* The parts that a rank sends, reduces and receives in one operation over links, for each peer.
 * transfer.h carries it out. Only the thread that runs an operation calls these. */
#ifndef COMM_PLAN_H
#define COMM_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "libworker/comm/peer.h"
#include "libworker/comm/reduce.h"

struct wk_comm;

/* One operand of a sum, in order: at `data`, or the next bytes from `peer`. */
struct summand {
    const char *data;
    int peer;
};

struct reduce_plan {
    const struct summand *summands;
    const struct reduction *reduction; /* its `sources` is their number */
    char *dst;
    size_t dst_size; /* bytes of an element there */
    size_t count, done;
    size_t ready;    /* bytes of dst that are final: gated outs may send them */
    bool rest_apart; /* the remaining receives are from other peers than the summands */
};

/* Start a plan: headers to and from all others. Every operation over links begins with it. */
void plan_begin(struct wk_comm *comm);

/* An empty plan: this rank sends and expects nothing, not even headers. */
void plan_clear(struct wk_comm *comm);
void plan_send(struct wk_comm *comm, int peer, const void *data, size_t bytes);
void plan_send_gated(struct wk_comm *comm, int peer, struct out out);
struct in *plan_receive(struct wk_comm *comm, int peer, void *data, size_t bytes);

/* The sum of all ranks' data in rank order, this rank's from memory. */
struct reduce_plan plan_sum_of_all(struct wk_comm *comm, const struct reduction *reduction,
                                   const void *own);

#endif
