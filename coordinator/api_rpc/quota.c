#include "coordinator/api_rpc/quota.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "coordinator/api_rpc/folders.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/model/tenant.h"

enum { MINUTE_MS = 60000 };

/* A bucket with a minute's submits, which refills evenly. */
struct rate {
    double taken; /* used part of the bucket */
    int64_t at_ms;
};

struct quota_rates {
    struct strmap tenants; /* name -> struct rate */
};

int quota_rates_new(struct quota_rates **ret, struct error *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

void quota_rates_free(struct quota_rates *rates)
{
    if (!rates)
        return;
    strmap_free_values(&rates->tenants);
    free(rates);
}

static struct rate *rate_of(struct service *service, const struct store_tenant *tenant)
{
    struct strmap *rates = &service->quota_rates->tenants;
    struct rate *rate = strmap_get(rates, tenant->name);
    int64_t now_ms = service_now_ms(service);
    if (!rate) {
        rate = calloc(1, sizeof(*rate));
        if (!rate || strmap_set(rates, tenant->name, rate, NULL)) {
            free(rate);
            return NULL;
        }
        rate->at_ms = now_ms;
    }
    double per_minute = (double)quota_limit(&tenant->quotas, QUOTA_SUBMITS_PER_MINUTE);
    rate->taken -= (double)(now_ms - rate->at_ms) / MINUTE_MS * per_minute;
    rate->at_ms = now_ms;
    if (rate->taken < 0)
        rate->taken = 0;
    return rate;
}

static int count_valid_tokens(struct service *service, const char *tenant)
{
    int count = 0, all = access_tokens_count(service->access);
    const struct store_token **tokens = access_tokens(service->access);
    for (int i = 0; tokens && i < all; i++) {
        if (strcmp(tokens[i]->tenant, tenant) == 0 &&
            access_is_valid(tokens[i], service_wall_ms(service)))
            count++;
    }
    free(tokens);
    return count;
}

int64_t quota_used(struct service *service, const struct store_tenant *tenant, enum quota quota)
{
    const struct tenant *now = cluster_tenant(service_cluster(service), tenant->name);
    const struct rate *rate;
    switch (quota) {
    case QUOTA_WAITING_JOBS:
        return now ? (int64_t)now->waiting.count : 0;
    case QUOTA_SPEC_BYTES:
        return now ? now->active_spec_bytes : 0;
    case QUOTA_ENDED_JOBS:
        return now ? now->ended_jobs : 0;
    case QUOTA_SUBMITS_PER_MINUTE:
        rate = rate_of(service, tenant);
        return rate ? (int64_t)rate->taken : 0;
    case QUOTA_OUTPUT_BYTES:
        return kept_output(service->kept, tenant->name);
    case QUOTA_METRICS_BYTES:
        return kept_metrics(service->kept, tenant->name);
    case QUOTA_METRICS_MEMORY_BYTES:
        return metrics_memory(service->metrics, tenant->name);
    case QUOTA_TOKENS:
        return count_valid_tokens(service, tenant->name);
    case QUOTA_SECRETS:
        return secrets_count(service->secrets, tenant->name);
    case QUOTA_PRIORITY:
    case QUOTA_COUNT:
        break;
    }
    return 0;
}

/* Refuse if `more` does not fit any more. */
static int check_quota(struct service *service, const struct store_tenant *tenant, enum quota quota,
                       int64_t more, struct error *err)
{
    int64_t limit = quota_limit(&tenant->quotas, quota);
    int64_t used = quota_used(service, tenant, quota);
    if (used + more <= limit)
        return 0;
    error_set(err, E_RESOURCE_EXHAUSTED,
              "tenant %s has used up its quota %s: %lld of %lld (%s), and this asks for %lld more",
              tenant->name, quota_name(quota), (long long)used, (long long)limit,
              quota_about(quota), (long long)more);
    error_hint(err,
               "wait until some have ended, or ask an administrator for more: muster tenant set "
               "%.63s --quota %s=N",
               tenant->name, quota_name(quota));
    return E_RESOURCE_EXHAUSTED;
}

static int check_priority(const struct store_tenant *tenant, const struct spec *spec,
                          struct error *err)
{
    int64_t limit = quota_limit(&tenant->quotas, QUOTA_PRIORITY);
    if (spec->priority <= limit)
        return 0;
    error_set(err, E_PERMISSION_DENIED, "priority %d: members of tenant %s may use at most %lld",
              spec->priority, tenant->name, (long long)limit);
    error_field(err, "priority");
    error_hint(err, "ask an administrator: muster tenant set %.63s --quota priority=%d",
               tenant->name, spec->priority);
    return E_PERMISSION_DENIED;
}

static int check_cluster(const struct cluster *cluster, struct error *err)
{
    if (cluster_jobs_count(cluster) < CLUSTER_JOBS_MAX - CLUSTER_JOBS_RESERVED)
        return 0;
    error_set(err, E_RESOURCE_EXHAUSTED,
              "the cluster has %d jobs, and the last %d places are administrators'",
              cluster_jobs_count(cluster), CLUSTER_JOBS_RESERVED);
    error_hint(err,
               "--keep-jobs limits the ended jobs that are kept; queued jobs can be cancelled");
    return E_RESOURCE_EXHAUSTED;
}

int quota_allows_job(struct service_call *call, const struct spec *spec, struct error *err)
{
    struct service *service = call->service;
    const struct store_tenant *tenant = access_tenant(service->access, spec->tenant);
    if (!scope_tenant(call) || !tenant)
        return 0;
    int rc = check_cluster(service_cluster(service), err);
    if (!rc)
        rc = check_priority(tenant, spec, err);
    if (!rc)
        rc = folders_allow_job(service, tenant, spec, err);
    if (!rc)
        rc = check_quota(service, tenant, QUOTA_WAITING_JOBS, 1, err);
    if (!rc)
        rc = check_quota(service, tenant, QUOTA_SPEC_BYTES, (int64_t)strlen(spec->json), err);
    if (!rc)
        rc = check_quota(service, tenant, QUOTA_SUBMITS_PER_MINUTE, 1, err);
    struct rate *rate = rc ? NULL : rate_of(service, tenant);
    if (rate)
        rate->taken += 1;
    return rc;
}

/* The tenant's quota without the share of its other jobs. */
static int64_t left_for(int64_t limit, int64_t all, int64_t own)
{
    enum { LEAST_BYTES = 1 << 20 };
    int64_t left = limit - (all - own);
    return left < LEAST_BYTES ? LEAST_BYTES : left;
}

int64_t quota_output_of(struct service *service, const struct job *job)
{
    const struct store_tenant *tenant = access_tenant(service->access, job->spec->tenant);
    return !tenant ? 0
                   : left_for(quota_limit(&tenant->quotas, QUOTA_OUTPUT_BYTES),
                              kept_output(service->kept, tenant->name),
                              kept_output_of(service->kept, job->id));
}

struct metrics_job quota_metrics_of(struct service *service, const struct job *job)
{
    const struct store_tenant *tenant = access_tenant(service->access, job->spec->tenant);
    struct metrics_job ret = {.id = job->id, .tenant = job->spec->tenant};
    if (!tenant)
        return ret;
    ret.file_bytes = left_for(quota_limit(&tenant->quotas, QUOTA_METRICS_BYTES),
                              kept_metrics(service->kept, tenant->name),
                              kept_metrics_of(service->kept, job->id));
    ret.memory_bytes = quota_limit(&tenant->quotas, QUOTA_METRICS_MEMORY_BYTES);
    return ret;
}

int quota_allows_token(struct service *service, const char *tenant, struct error *err)
{
    const struct store_tenant *known = access_tenant(service->access, tenant);
    return known ? check_quota(service, known, QUOTA_TOKENS, 1, err) : 0;
}

int quota_allows_secret(struct service *service, const char *tenant, struct error *err)
{
    const struct store_tenant *known = access_tenant(service->access, tenant);
    return known ? check_quota(service, known, QUOTA_SECRETS, 1, err) : 0;
}
