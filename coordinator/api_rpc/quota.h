/* What a tenant's members may still take: asked before a job is submitted or a token made. The
 * limits are the tenant's (model/quota.h); administrators are bound by none of them, and the last
 * places of the cluster are theirs. Owned by the service; loop thread only.
 */
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
void quota_rates_free(struct quota_rates *rates); /* NULL is fine */

/* E_RESOURCE_EXHAUSTED, or E_PERMISSION_DENIED (priority, a folder of checkpoints that is another
 * tenant's), tells which quota, how much is used of it
 * and what to do. A submit that is allowed counts. */
int quota_allows_job(struct service_call *call, const struct spec *spec, struct error *err);

int quota_allows_token(struct service *service, const char *tenant, struct error *err);
int quota_allows_secret(struct service *service, const char *tenant, struct error *err);

/* How many bytes may be kept of this job: what its tenant's other jobs leave, a mebibyte at least.
 */
int64_t quota_output_of(struct service *service, const struct job *job);
/* The same of its metrics, beside what its tenant may have in memory. */
struct metrics_job quota_metrics_of(struct service *service, const struct job *job);

/* What is used of it now. */
int64_t quota_used(struct service *service, const struct store_tenant *tenant, enum quota quota);

#endif
