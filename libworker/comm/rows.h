/* Operations with rows of different lengths (kind_has_rows), as plans over the links. Only the
 * thread that runs an operation calls these. 0 or the failure. */
#ifndef COMM_ROWS_H
#define COMM_ROWS_H

#include "libworker/comm/request.h"

struct wk_comm;

/* After plan_begin. */
int rows_run(struct wk_comm *comm, const struct request *rq);
int rows_alone(struct wk_comm *comm, const struct request *rq); /* in a world of one rank */

#endif
