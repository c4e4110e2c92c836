#include "coordinator/api_rpc/service_audit.h"

#include "common/base/str.h"
#include "coordinator/api_rpc/method.h"
#include "coordinator/api_rpc/service_state.h"

static void keep_text(char *ret, size_t size, const char *text)
{
    (void)str_copy(ret, size, text ? text : "");
}

bool service_audits(const struct service_method *method)
{
    return method->change && (method->roles != ACCESS_AGENT || method->agent_audited);
}

static void write_entry(void *arg, const struct store_audit *entry)
{
    struct service *service = arg;
    struct change change = {.kind = CHANGE_AUDIT, .audit = *entry};
    service->options.host.write(service->options.host.self, &change);
}

static void flush_folds(void *arg)
{
    struct service *service = arg;
    audit_folds_flush(service->audit_folds, service_wall_ms(service), write_entry, service);
}

void service_audit_flush(struct service *service)
{
    loop_timer_cancel(service->options.loop, &service->audit_minute);
    flush_folds(service);
}

static bool fold_entry(struct service *service, const struct store_audit *entry)
{
    bool folded = audit_fold(service->audit_folds, entry);
    if (audit_folds_any(service->audit_folds) && !loop_timer_armed(&service->audit_minute))
        loop_timer_set(service->options.loop, &service->audit_minute,
                       service_now_ms(service) + AUDIT_FOLD_MS, flush_folds, service);
    return folded;
}

void service_audit_entry(struct service *service, const struct store_audit *entry)
{
    if (!fold_entry(service, entry))
        write_entry(service, entry);
}

void service_audit_stranger(struct service *service, const struct service_stranger *stranger,
                            const struct error *err)
{
    struct store_audit entry = {.wall_ms = service_wall_ms(service)};
    (void)str_copy(entry.token_name, sizeof(entry.token_name), "(none that is good)");
    keep_text(entry.carrier, sizeof(entry.carrier), stranger->carrier);
    keep_text(entry.peer, sizeof(entry.peer), stranger->peer);
    keep_text(entry.method, sizeof(entry.method), stranger->method);
    (void)str_copy(entry.result, sizeof(entry.result), error_name(err->code));
    keep_text(entry.text, sizeof(entry.text), err->text);
    service_audit_entry(service, &entry);
}

static void audit_of(struct service *service, const struct store_token *caller,
                     const struct service_method *method, const struct service_trace *trace,
                     const struct error *err, struct store_audit *entry)
{
    *entry = (struct store_audit){0};
    entry->wall_ms = service_wall_ms(service);
    (void)str_copy(entry->token, sizeof(entry->token), caller->id);
    (void)str_copy(entry->token_name, sizeof(entry->token_name), caller->name);
    (void)str_copy(entry->role, sizeof(entry->role), caller->role);
    (void)str_copy(entry->tenant, sizeof(entry->tenant), caller->tenant);
    (void)str_copy(entry->carrier, sizeof(entry->carrier), trace->carrier);
    (void)str_copy(entry->peer, sizeof(entry->peer), trace->peer);
    (void)str_copy(entry->method, sizeof(entry->method), method->name);
    (void)str_copy(entry->object, sizeof(entry->object), trace->object);
    (void)str_copy(entry->result, sizeof(entry->result), error_name(err ? err->code : 0));
    keep_text(entry->text, sizeof(entry->text), err ? err->text : trace->detail);
}

void service_audit_attempt(struct service *service, const struct store_token *caller,
                           const struct service_method *method, const struct service_trace *trace,
                           const struct error *err)
{
    struct change change = {.kind = CHANGE_AUDIT};
    audit_of(service, caller, method, trace, err, &change.audit);
    if (!fold_entry(service, &change.audit))
        service->options.host.write(service->options.host.self, &change);
}

void service_trace_init(struct service_trace *trace, const struct service_request *request)
{
    keep_text(trace->carrier, sizeof(trace->carrier), request->carrier);
    keep_text(trace->peer, sizeof(trace->peer), request->peer_address);
}

void service_trace(struct service_call *call, const char *object, const char *detail)
{
    if (!call->trace)
        return;
    keep_text(call->trace->object, sizeof(call->trace->object), object);
    keep_text(call->trace->detail, sizeof(call->trace->detail), detail);
}

void service_write_audit(struct service_call *call, const struct error *err)
{
    service_audit_attempt(call->service, call->caller, call->method, call->trace, err);
    call->trace->written = true;
}

void service_write(struct service_call *call, struct change *change)
{
    struct service *service = call->service;
    change->request = call->id;
    service_write_audit(call, NULL);
    service->options.host.write(service->options.host.self, change);
}

void service_write_refusal(struct service_call *call, const struct error *err)
{
    struct service *service = call->service;
    struct change change = {.kind = CHANGE_AUDIT, .request = call->id};
    audit_of(service, call->caller, call->method, call->trace, err, &change.audit);
    call->trace->written = true;
    change.folded = fold_entry(service, &change.audit);
    service->options.host.write(service->options.host.self, &change);
}

bool service_audit(struct service *service, const struct action *action, struct store_audit *ret)
{
    struct service_call *call = map_get(&service->calls, action->request);
    if (!call || !call->trace || action->repeated)
        return false;
    if (!call->trace->object[0])
        keep_text(call->trace->object, sizeof(call->trace->object),
                  action->job[0] ? action->job : action->node);
    bool says_ok = !action->error && call->method->agent_audited == AUDIT_REFUSED;
    audit_of(service, call->caller, call->method, call->trace, action->error, ret);
    call->trace->written = true;
    return !says_ok && !fold_entry(service, ret);
}

void service_audit_forgotten(struct service *service, const struct action *action,
                             struct store_audit *ret)
{
    *ret = (struct store_audit){.wall_ms = service_wall_ms(service)};
    (void)str_copy(ret->token_name, sizeof(ret->token_name), "(the coordinator)");
    (void)str_copy(ret->method, sizeof(ret->method), "ForgetNode");
    (void)str_copy(ret->object, sizeof(ret->object), action->node);
    (void)str_copy(ret->result, sizeof(ret->result), error_name(0));
    (void)str_printf(ret->text, sizeof(ret->text), "a lost node%s%s; it joins again with a token",
                     action->key[0] ? " of key " : "", action->key);
}
