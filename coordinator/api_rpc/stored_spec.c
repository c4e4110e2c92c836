#include "coordinator/api_rpc/stored_spec.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/rpc/message.h"
#include "common/rpc/transcode.h"
#include "coordinator/api_rpc/intake_spec.h"
#include "coordinator/api_rpc/service_state.h"

Muster__JobSpec *service_spec(struct service *service, const struct job *job)
{
    Muster__JobSpec *spec = strmap_get(&service->specs, job->id);
    if (spec)
        return spec;
    ProtobufCMessage *message = NULL;
    const char *json = job->spec->json;
    int rc = transcode_from_json(json, strlen(json), &muster__job_spec__descriptor, &message, NULL);
    insist(!rc || rc == E_RESOURCE_EXHAUSTED); /* it was written from such a message */
    insist(message && !strmap_set(&service->specs, job->id, message, NULL));
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
    if (rc)
        return rc;
    rc = intake_stored_spec((const Muster__JobSpec *)message, json, ret, err);
    rpc_message_free(message);
    if (!rc && shared && strmap_count(shared) < SHARED_MAX)
        (void)strmap_set(shared, json, *ret, NULL); /* without sharing it is only slower */
    return rc;
}

void service_forget_specs(struct service *service)
{
    for (struct map_entry *e = strmap_first(&service->specs); e; e = map_next(e))
        rpc_message_free(e->value);
    strmap_fini(&service->specs);
}
