/* The operation in progress, from a request: its header, its way, its reduction. Only the thread
 * that runs an operation calls these. */
#ifndef COMM_OPERATION_H
#define COMM_OPERATION_H

#include "libworker/comm/reduce.h"
#include "libworker/comm/request.h"
#include "libworker/comm/ways.h"

struct wk_comm;

/* The header of this rank's next operation, in comm->header; uses up its sequence number. */
void operation_header(struct wk_comm *comm, const struct request *rq);

/* The way of an all-reduce that cannot run in place: the same on every rank. */
enum way operation_way(const struct wk_comm *comm, const struct request *rq);

/* `tally` receives the statistics if the caller asked for them. */
struct reduction operation_reduction(const struct wk_comm *comm, const struct request *rq,
                                     struct tally *tally);

#endif
