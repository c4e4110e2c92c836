/* When and where a job that must wait will start. Pure. */
#ifndef SCHEDULER_RESERVE_H
#define SCHEDULER_RESERVE_H

#include "coordinator/scheduler/parts.h"

/* Keep from all that come after it what `job` will start on: the nodes that are free earliest if
 * those who use them end with their max_runtime, of one topology value. If nobody can say when
 * enough of them will be free, all it could use are kept. Nothing is kept for what cannot run on
 * the nodes that are there. Returns when it starts, INT64_MAX = unknown, 0 = not at all. */
int64_t scheduler_reserve(struct view *view, const struct parts *parts, const struct job *job,
                          const struct request *request);

#endif
