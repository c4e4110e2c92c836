#include "coordinator/api_rpc/job_data.h"

#include "coordinator/api_rpc/service_state.h"
#include "coordinator/model/quota.h"

void service_measure_kept(struct service *service, const struct job *job)
{
    if (!kept_has_job(service->kept, job->id))
        kept_set(service->kept, job->spec->tenant, job->id, logs_size(service->logs, job->id),
                 metrics_size(service->metrics, job->id));
}

bool service_over_quota(struct service *service, const char *name)
{
    const struct store_tenant *tenant = access_tenant(service->access, name);
    return tenant &&
           (kept_output(service->kept, name) > quota_limit(&tenant->quotas, QUOTA_OUTPUT_BYTES) ||
            kept_metrics(service->kept, name) > quota_limit(&tenant->quotas, QUOTA_METRICS_BYTES));
}

bool service_has_data(struct service *service, const struct job *job)
{
    return kept_output_of(service->kept, job->id) + kept_metrics_of(service->kept, job->id) > 0;
}

int service_keep_jobs(struct service *service, const char *name, int fallback)
{
    const struct store_tenant *tenant = access_tenant(service->access, name);
    int64_t limit = tenant ? quota_limit(&tenant->quotas, QUOTA_ENDED_JOBS) : 0;
    return limit ? (int)limit : fallback;
}

int64_t service_spec_quota(struct service *service, const char *name)
{
    const struct store_tenant *tenant = access_tenant(service->access, name);
    return tenant ? quota_limit(&tenant->quotas, QUOTA_SPEC_BYTES) : INT64_MAX;
}

void service_forget_output(struct service *service, const char *id)
{
    (void)logs_forget(service->logs, id, NULL);
    (void)metrics_forget(service->metrics, id, NULL); /* the rest is found at the next start */
    kept_forget(service->kept, id);
}
