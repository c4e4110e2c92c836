/* Which node may report output and series of a job: one that has or had a worker of it. A worker's
 * output often arrives when its job is already elsewhere, so earlier nodes count too. They are
 * remembered, and after a restart found among the job's events. Loop thread only. */
#ifndef API_RPC_REPORTER_H
#define API_RPC_REPORTER_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/model/cluster.h"

struct service;

/* True if `node` has or had a worker of this job; or this worker. */
bool service_node_had(struct service *service, const struct job *job, const char *node);
bool service_node_had_worker(struct service *service, const struct job *job, uint64_t uid,
                             const char *node);

#endif
