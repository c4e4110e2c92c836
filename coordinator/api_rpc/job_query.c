#include "coordinator/api_rpc/job_query.h"

#include <string.h>

#include "common/rpc/message.h"
#include "coordinator/api_rpc/intake.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/stored_spec.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/model/cluster_walk.h"

const struct job *service_find_job(struct service_call *call, const char *id, struct error *err)
{
    const struct cluster *cluster = service_cluster(call->service);
    const struct job *job = cluster_job(cluster, id);
    if (!job)
        job = cluster_job_named(cluster, id);
    /* Another tenant may have a newer job of the same name. */
    if (job && !scope_sees_job(call, job) && strcmp(job->id, id) != 0)
        while (job && (strcmp(job->spec->name, id) != 0 || !scope_sees_job(call, job)))
            job = cluster_prev_job(cluster, job);
    if (!job || !scope_sees_job(call, job)) {
        error_set(err, E_NOT_FOUND, "no job has the id or name '%.80s'", id);
        error_field(err, "id");
        error_hint(err, "muster ps lists jobs");
        return NULL;
    }
    return job;
}

Muster__Job *service_show_job(struct service *service, struct arena *arena, const struct job *job,
                              bool workers)
{
    int64_t ms[LEDGER_COUNT];
    Muster__Job *ret = wire_job(arena, job, service_spec(service, job), workers);
    if (!ret || !job->ledger.open)
        return ret;
    (void)ledger_read(&job->ledger, service_now_ms(service), ms);
    ret->ledger = wire_ledger(arena, ms, job->ledger.rework_steps);
    return ret->ledger ? ret : NULL;
}

/* A job belongs to its submitter's tenant. Specs without a tenant are widened to "default": for a
 * submitter with a tenant it means that one. */
int service_choose_tenant(struct service_call *call, Muster__JobSpec *spec, struct error *err)
{
    const char *own = scope_tenant(call);
    const char *wanted = *spec->tenant ? spec->tenant : "default";
    if (own && strcmp(wanted, "default") == 0)
        wanted = own;
    spec->tenant = rpc_text(wanted);
    if (own && strcmp(wanted, own) != 0) {
        error_set(err, E_PERMISSION_DENIED, "this token submits jobs of tenant '%s' only", own);
        error_field(err, "tenant");
        return E_PERMISSION_DENIED;
    }
    struct access *access = call->service->access;
    if (access_tenant(access, wanted))
        return 0;
    int rc = intake_name(wanted, "tenant", err);
    if (rc)
        return rc;
    (void)access_no_tenant(access, wanted, err);
    err->code = E_INVALID_ARGUMENT;
    return err->code;
}
