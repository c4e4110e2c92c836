/* Operations of ranks that share a host, without sending. Only the thread that runs an operation
 * calls this. */
#ifndef COMM_SHARED_H
#define COMM_SHARED_H

#include "libworker/comm/request.h"

struct wk_comm;

int shared_run(struct wk_comm *comm, const struct request *rq); /* 0 or the failure */

#endif
