/* When and where a job that must wait will start. Pure. */
#ifndef SCHEDULER_RESERVE_H
#define SCHEDULER_RESERVE_H

#include "coordinator/scheduler/parts.h"
#include "coordinator/scheduler/request.h"

/* Reserve the nodes on which `job` will start, against all later jobs. These are the nodes of one
 * topology value that are free earliest, if their users end with their max_runtime. If it is
 * unknown when enough of them will be free, all nodes it could use are reserved. A job that cannot
 * run on the existing nodes gets no reservation. Returns the start, INT64_MAX = unknown, 0 = never.
 */
int64_t scheduler_reserve(struct view *view, const struct parts *parts, const struct job *job,
                          const struct request *request);

#endif
