/* Queries of the call files: jobs by id or name, specs, complete output. */
#include "coordinator/api_rpc/service.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/rpc/message.h"
#include "common/rpc/transcode.h"
#include "coordinator/api_rpc/intake_spec.h"
#include "coordinator/api_rpc/service_internal.h"

enum {
    LATE_KEPT_MAX = 10000,
    OUTPUT_QUIET_MS = 300, /* an agent with more to send reports again at once */
};

/* When a job's output is complete */

void service_late_output(struct service *service, const struct job *job)
{
    if (!job_state_ended(job->state))
        return;
    if (strmap_count(&service->late) >= LATE_KEPT_MAX)
        strmap_fini(&service->late);
    (void)strmap_set(&service->late, job->id, (void *)(intptr_t)service_wall_ms(service), NULL);
}

/* True if the agents of all its workers ever have reported their output as complete. */
static bool output_whole(const struct service *service, const struct job *job)
{
    for (uint64_t uid = 1; uid < job->next_uid; uid++) {
        if (logs_whole(service->logs, job->id, uid))
            continue;
        const struct worker *worker = job_worker(job, uid); /* NULL = from an earlier generation */
        if (!worker || !(worker->spare || worker->exit.unstarted))
            return false;
    }
    return true;
}

int64_t service_settled_wall_ms(const struct service *service, const struct job *job)
{
    int64_t late_ms = (intptr_t)strmap_get(&service->late, job->id);
    int64_t last_ms = late_ms > job->ended_wall_ms ? late_ms : job->ended_wall_ms;
    bool over = last_ms + OUTPUT_QUIET_MS <= service_wall_ms(service);
    return !over && output_whole(service, job) ? job->ended_wall_ms : last_ms + OUTPUT_QUIET_MS;
}

/* Shared by the files of calls */

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

Muster__JobSpec *service_spec(struct service *service, const struct job *job)
{
    Muster__JobSpec *spec = strmap_get(&service->specs, job->id);
    if (spec)
        return spec;
    ProtobufCMessage *message = NULL;
    const char *json = job->spec->json;
    int rc = transcode_from_json(json, strlen(json), &muster__job_spec__descriptor, &message, NULL);
    insist(rc == 0 || rc == E_RESOURCE_EXHAUSTED); /* it was written from such a message */
    insist(message && strmap_set(&service->specs, job->id, message, NULL) == 0);
    return (Muster__JobSpec *)message;
}

int service_parse_spec(void *arg, const char *json, struct spec **ret, struct error *err)
{
    enum { SHARED_MAX = 4096 };
    struct strmap *shared = arg;
    struct spec *known = shared ? strmap_get(shared, json) : NULL;
    if (known) {
        *ret = spec_hold(known);
        return 0;
    }
    ProtobufCMessage *message;
    int rc = transcode_from_json(json, strlen(json), &muster__job_spec__descriptor, &message, err);
    if (rc < 0)
        return rc;
    rc = intake_stored_spec((const Muster__JobSpec *)message, json, ret, err);
    rpc_message_free(message);
    if (rc == 0 && shared && strmap_count(shared) < SHARED_MAX)
        (void)strmap_set(shared, json, *ret, NULL); /* without sharing it is only slower */
    return rc;
}

void service_stats(const struct service *service, struct service_stats *ret)
{
    *ret = service->stats;
    ret->open = (uint32_t)service->calls.count;
    ret->refused = service->budgets.refused;
    ret->metrics_memory_bytes = (uint64_t)metrics_memory(service->metrics, NULL);
}
