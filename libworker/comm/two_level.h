/* All-reduce along a chain of hosts. Only the thread that runs an operation calls these. 0 or the
 * failure. */
#ifndef COMM_TWO_LEVEL_H
#define COMM_TWO_LEVEL_H

#include "libworker/comm/request.h"

struct wk_comm;

/* Each host has the same number of ranks, at least 2. */
int two_level_run(struct wk_comm *comm, const struct request *rq);

/* Each rank is on a host of its own. */
int chain_run(struct wk_comm *comm, const struct request *rq);

#endif
