/* The operations over links, as plans: each rank sends directly to each other rank. Only the thread
 * that runs an operation calls this. */
#ifndef COMM_BY_LINKS_H
#define COMM_BY_LINKS_H

#include "libworker/comm/request.h"

struct wk_comm;

int by_links_run(struct wk_comm *comm, const struct request *rq); /* 0 or the failure */

#endif
