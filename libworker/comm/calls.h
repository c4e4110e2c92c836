/* The arguments of the public operations are checked here, once, and become a request. The calling
 * thread. */
#ifndef COMM_CALLS_H
#define COMM_CALLS_H

#include "libworker/comm/request.h"

struct wk_comm;

/* 0, or the error in the arguments, stored for wk_comm_error. */
int request_check(struct wk_comm *comm, const struct request *rq);

#endif
