#include "coordinator/api_rpc/service_answer.h"

#include <stdlib.h>
#include <string.h>

#include "common/rpc/message.h"
#include "coordinator/api_rpc/method.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"

void service_call_free(struct service_call *call)
{
    struct service *service = call->service;
    if (call->key[0])
        service->stats.waiting--;
    list_remove(&call->link);
    list_remove(&call->ready.link);
    list_remove(&call->in_connection);
    budget_close(&service->budgets, call->budget, call->method->plans);
    loop_timer_cancel(service->options.loop, &call->timer);
    map_remove(&service->calls, call->id);
    rpc_message_free(call->request);
    if (call->trace)
        explicit_bzero(call->trace->plain, sizeof(call->trace->plain));
    free(call->trace);
    free(call->refusal);
    free(call);
}

void service_call_end(struct service_call *call, const struct error *err,
                      const ProtobufCMessage *answer)
{
    service_answer_fn fn = call->answer;
    void *arg = call->arg;
    uint64_t tag = call->tag;
    service_call_free(call);
    fn(arg, tag, err, answer);
}

void service_answer(struct service_call *call, const ProtobufCMessage *answer)
{
    service_call_end(call, NULL, answer);
}

/* True for attempts without permission, which are audited; mistakes are not. */
static bool is_attempt(const struct service_call *call, const struct error *err)
{
    return call->trace && !call->trace->written &&
           (err->code == E_PERMISSION_DENIED || err->code == E_NOT_FOUND);
}

void service_fail(struct service_call *call, const struct error *err)
{
    if (is_attempt(call, err))
        service_audit_attempt(call->service, call->caller, call->method, call->trace, err);
    call->service->stats.failures++;
    service_call_end(call, err, NULL);
}

void service_answer_whole(struct service_call *call, bool whole, const ProtobufCMessage *answer)
{
    struct error err;
    if (whole) {
        service_answer(call, answer);
        return;
    }
    error_set(&err, E_RESOURCE_EXHAUSTED, "the answer is too large");
    service_fail(call, &err);
}

char *service_changes_refused(const struct service *service, struct error *err)
{
    const struct service_host *host = &service->options.host;
    return host->writable(host->self, err) ? rpc_text("") : err->text;
}

/* The reason may be a change of this very turn. If storing that fails, the caller gets that failure
 * instead. */
void service_refuse(struct service_call *call, const struct error *err)
{
    if (err->code == E_INVALID_ARGUMENT || !(call->refusal = malloc(sizeof(*call->refusal)))) {
        service_fail(call, err);
        return;
    }
    *call->refusal = *err;
    service_write_refusal(call, err);
}
