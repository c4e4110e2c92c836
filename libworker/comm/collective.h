/* Runs a request, by the way that fits the placement of the ranks. Only the thread that has passed
 * the gate of work.c calls this. */
#ifndef COMM_COLLECTIVE_H
#define COMM_COLLECTIVE_H

#include "libworker/comm/request.h"

struct wk_comm;

int collective_run(struct wk_comm *comm, const struct request *rq); /* 0 or the failure */

#endif
