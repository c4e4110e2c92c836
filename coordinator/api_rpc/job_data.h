/* Output and series that are kept of jobs, and how much of a tenant's may be kept: for retention.
 * Loop thread only. */
#ifndef API_RPC_JOB_DATA_H
#define API_RPC_JOB_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/model/cluster.h"

struct service;

/* Count what is kept of a job from before this start. */
void service_measure_kept(struct service *service, const struct job *job);
bool service_has_data(struct service *service, const struct job *job); /* output or series of it */
void service_forget_output(struct service *service, const char *id);   /* delete them */

/* True if the tenant exceeds its quota of output or metrics. */
bool service_over_quota(struct service *service, const char *tenant);
/* How many ended jobs of the tenant `name`, and bytes of their specs, may be kept. */
int service_keep_jobs(struct service *service, const char *name, int fallback);
int64_t service_spec_quota(struct service *service, const char *name);

#endif
