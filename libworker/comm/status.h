/* What other threads may see of the operation in progress, and the counters. The runner writes, any
 * thread reads (wk_comm_status, wk_comm_statistics, comm_longest_wait). */
#ifndef COMM_STATUS_H
#define COMM_STATUS_H

#include <stddef.h>

#include "libworker/comm/request.h"

struct wk_comm;

/* The operation of comm->header begins, ends. */
void status_begin(struct wk_comm *comm, const struct request *rq);
void status_end(struct wk_comm *comm);

/* For the runner: the names of a few ranks that the operation waits for; returns their number. */
int status_missing(struct wk_comm *comm, char *ret_names, size_t bytes);

#endif
