/* Quota checks for a tenant's members, before a job is submitted or a token is made. The limits are
 * the tenant's (model/quota.h). They do not bind administrators, who also have the cluster's last
 * places reserved. Owned by the service; loop thread only. */
#ifndef API_RPC_QUOTA_H
#define API_RPC_QUOTA_H

#include "coordinator/model/cluster.h"
#include "coordinator/model/quota.h"
#include "coordinator/store/metrics.h"

struct service;
struct service_call;
struct store_tenant;

struct quota_rates; /* of submits, by tenant */

int quota_rates_new(struct quota_rates **ret, struct error *err);
void quota_rates_free(struct quota_rates *rates); /* NULL is allowed */

/* E_RESOURCE_EXHAUSTED, or E_PERMISSION_DENIED (priority, a checkpoint folder of another tenant).
 * The error names the quota, its present use and a solution. An allowed submit is counted. */
int quota_allows_job(struct service_call *call, const struct spec *spec, struct error *err);

int quota_allows_token(struct service *service, const char *tenant, struct error *err);
int quota_allows_secret(struct service *service, const char *tenant, struct error *err);

/* Bytes that may be kept of this job: the rest from the tenant's other jobs, at least a mebibyte.
 */
int64_t quota_output_of(struct service *service, const struct job *job);
/* The same for its metrics, and the tenant's limit in memory. */
struct metrics_job quota_metrics_of(struct service *service, const struct job *job);

/* The present use of it. */
int64_t quota_used(struct service *service, const struct store_tenant *tenant, enum quota quota);

#endif
