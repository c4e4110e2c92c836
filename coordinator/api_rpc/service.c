#include "coordinator/api_rpc/service.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/hex.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "common/rpc/message.h"
#include "common/rpc/transcode.h"
#include "coordinator/api_rpc/intake.h"
#include "coordinator/api_rpc/service_internal.h"

enum {
    SPECS_KEPT_MAX = 20000,
};

int64_t service_now_ms(const struct service *service)
{
    return loop_now_ms(service->options.loop);
}

int64_t service_wall_ms(const struct service *service)
{
    const struct clock *clock = &service->options.env->clock;
    return clock->wall_ms(clock->self);
}

const struct cluster *service_cluster(struct service *service)
{
    return service->options.host.cluster(service->options.host.self);
}

static void keep_text(char *ret, size_t size, const char *text)
{
    (void)str_copy(ret, size, text ? text : "");
}

int service_new(const struct service_options *options, struct service **ret, struct error *err)
{
    struct service *service = calloc(1, sizeof *service);
    if (!service)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    service->options = *options;
    list_init(&service->ready);
    keep_text(service->version, sizeof service->version, options->version);
    keep_text(service->commit, sizeof service->commit, options->commit);
    keep_text(service->cluster_id, sizeof service->cluster_id, options->cluster_id);
    uint32_t epoch;
    options->env->rng.fill(options->env->rng.self, &epoch, sizeof epoch);
    service->poll_epoch = (uint64_t)((epoch & INT32_MAX) | 1) << 32; /* an int64, too */
    service->nodes_version = service->poll_epoch;
    int rc = logs_new(&options->env->disk, options->data_dir, &service->logs, err);
    if (rc == 0)
        rc = metrics_new(&options->env->disk, options->data_dir, &service->metrics, err);
    if (rc == 0)
        rc = board_new(&service->board, err);
    if (rc == 0)
        rc = access_new(&service->access, err);
    if (rc < 0)
        service_free(service);
    else
        *ret = service;
    return rc;
}

static void call_free(struct service_call *call)
{
    struct service *service = call->service;
    if (call->key[0])
        service->stats.waiting--;
    list_remove(&call->link);
    list_remove(&call->whose);
    loop_timer_cancel(service->options.loop, &call->timer);
    map_remove(&service->calls, call->id);
    rpc_message_free(call->request);
    if (call->trace)
        explicit_bzero(call->trace->plain, sizeof call->trace->plain);
    free(call->trace);
    free(call->refusal);
    free(call);
}

static void forget_specs(struct service *service)
{
    for (struct map_entry *e = strmap_first(&service->specs); e; e = map_next(e))
        rpc_message_free(e->value);
    strmap_fini(&service->specs);
}

void service_free(struct service *service)
{
    if (!service)
        return;
    loop_timer_cancel(service->options.loop, &service->again);
    loop_timer_cancel(service->options.loop, &service->backup);
    for (struct map_entry *e = map_first(&service->calls); e; e = map_first(&service->calls))
        call_free(e->value);
    for (struct map_entry *e = map_first(&service->callers); e; e = map_next(e))
        free(e->value);
    for (struct map_entry *e = strmap_first(&service->rooms); e; e = map_next(e))
        free(e->value);
    for (struct map_entry *e = strmap_first(&service->links); e; e = map_next(e))
        free(e->value);
    forget_specs(service);
    map_fini(&service->calls);
    map_fini(&service->callers);
    map_fini(&service->peers);
    strmap_fini(&service->rooms);
    access_free(service->access);
    loop_timer_cancel(service->options.loop, &service->uses);
    strmap_fini(&service->links);
    strmap_fini(&service->late);
    forget_nodes_shown(service);
    logs_free(service->logs);
    metrics_free(service->metrics);
    board_free(service->board);
    free(service);
}

/* Who may call */

enum { USES_STORED_EVERY_MS = 60000 };

struct access *service_access(struct service *service)
{
    return service->access;
}

int service_load_access(struct service *service, struct error *err)
{
    return access_load(service->access, service->options.store, err);
}

static void store_use(void *arg, const struct store_token *token)
{
    struct service *service = arg;
    struct change change = {.kind = CHANGE_TOKEN, .token = *token};
    service->options.host.write(service->options.host.self, &change);
}

static void store_uses(void *arg)
{
    struct service *service = arg;
    service->uses_armed = access_flush_uses(service->access, 1, store_use, service);
    if (service->uses_armed)
        loop_timer_set(service->options.loop, &service->uses,
                       service_now_ms(service) + USES_STORED_EVERY_MS, store_uses, service);
}

int service_identify(struct service *service, const char *token, const struct store_token **ret,
                     struct error *err)
{
    int rc = access_identify(service->access, token, service_wall_ms(service), ret, err);
    if (rc == 0 && !service->uses_armed) {
        service->uses_armed = true;
        loop_timer_set(service->options.loop, &service->uses,
                       service_now_ms(service) + USES_STORED_EVERY_MS, store_uses, service);
    }
    return rc;
}

static int authorise(struct service *service, const struct service_method *method,
                     const struct service_request *request, const struct store_token **ret,
                     struct error *err)
{
    char names[96];
    *ret = NULL;
    if (method->roles == 0)
        return 0;
    int rc = service_identify(service, request->token, ret, err);
    if (rc < 0 || (access_role((*ret)->role) & method->roles))
        return rc;
    access_role_names(method->roles, names, sizeof names);
    rc = error_set(err, E_PERMISSION_DENIED, "%s needs a token of role %s, not %s", method->words,
                   names, (*ret)->role);
    if (service_audits(method)) {
        struct service_trace trace = {0};
        service_trace_init(&trace, request);
        service_audit_attempt(service, *ret, method, &trace, err);
    }
    return rc;
}

/* One call from its start to its answer */

static const struct service_method *find_method(const struct service_request *request)
{
    for (const struct service_method *row = service_methods; row->name; row++)
        if (strcmp(row->name, request->method->name) == 0 &&
            strcmp(row->service, request->service) == 0)
            return row;
    return NULL;
}

/* 0 is nobody's connection: REST knows itself who hung up. */
static int remember_caller(struct service *service, struct service_call *call)
{
    if (call->peer == 0)
        return 0;
    struct list *calls = map_get(&service->callers, call->peer);
    if (!calls) {
        calls = malloc(sizeof *calls);
        if (!calls || map_set(&service->callers, call->peer, calls, NULL) < 0) {
            free(calls);
            return E_RESOURCE_EXHAUSTED;
        }
        list_init(calls);
    }
    list_push_back(calls, &call->whose);
    return 0;
}

static struct service_call *call_new(struct service *service, const struct service_method *method,
                                     const struct service_request *request,
                                     const struct store_token *caller, struct error *err)
{
    struct service_call *call =
        service->calls.count < SERVICE_CALLS_MAX ? calloc(1, sizeof *call) : NULL;
    if (!call) {
        error_set(err, E_RESOURCE_EXHAUSTED, "too many calls are open");
        return NULL;
    }
    list_init(&call->link);
    list_init(&call->whose);
    call->service = service;
    call->id = ++service->next_id;
    call->method = method;
    call->caller = caller;
    call->role = caller ? access_role(caller->role) : 0;
    call->deadline_ms = request->deadline_ms;
    call->peer = request->peer;
    call->answer = request->answer;
    call->arg = request->arg;
    call->tag = request->tag;
    if (method->read)
        call->request = rpc_message_copy(request->message);
    if (service_audits(method) && (call->trace = calloc(1, sizeof *call->trace)))
        service_trace_init(call->trace, request);
    if ((method->read && !call->request) || (service_audits(method) && !call->trace) ||
        remember_caller(service, call) < 0 || map_set(&service->calls, call->id, call, NULL) < 0) {
        error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
        list_remove(&call->whose);
        rpc_message_free(call->request);
        free(call->trace);
        free(call);
        return NULL;
    }
    return call;
}

static void refuse(struct service *service, const struct service_request *request,
                   const struct error *err)
{
    service->stats.failures++;
    request->answer(request->arg, request->tag, err, NULL);
}

void service_start(struct service *service, const struct service_request *request)
{
    struct error err = {0};
    const struct service_method *method = find_method(request);
    service->stats.calls++;
    if (!method) {
        error_set(&err, E_UNIMPLEMENTED, "%s.%s is not offered", request->service,
                  request->method->name);
        refuse(service, request, &err);
        return;
    }
    struct service_host *host = &service->options.host;
    const struct store_token *caller;
    if (authorise(service, method, request, &caller, &err) < 0 ||
        (method->change && !host->writable(host->self, &err))) {
        refuse(service, request, &err);
        return;
    }
    struct service_call *call = call_new(service, method, request, caller, &err);
    if (!call)
        refuse(service, request, &err);
    else if (method->change)
        method->change(service, call, request);
    else
        list_push_back(&service->ready, &call->link);
}

static void end(struct service_call *call, const struct error *err, const ProtobufCMessage *answer)
{
    service_answer_fn fn = call->answer;
    void *arg = call->arg;
    uint64_t tag = call->tag;
    call_free(call);
    fn(arg, tag, err, answer);
}

void service_answer(struct service_call *call, const ProtobufCMessage *answer)
{
    end(call, NULL, answer);
}

/* Attempts at what is not the caller's are worth knowing; mistakes are not. */
static bool suspicious(const struct service_call *call, const struct error *err)
{
    return call->trace && !call->trace->written &&
           (err->code == E_PERMISSION_DENIED || err->code == E_NOT_FOUND);
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

void service_fail(struct service_call *call, const struct error *err)
{
    if (suspicious(call, err))
        service_audit_attempt(call->service, call->caller, call->method, call->trace, err);
    call->service->stats.failures++;
    end(call, err, NULL);
}

/* Waiting */

static void make_ready(struct service_call *call)
{
    struct service *service = call->service;
    if (call->key[0])
        service->stats.waiting--;
    call->key[0] = 0;
    list_remove(&call->link);
    loop_timer_cancel(service->options.loop, &call->timer);
    list_push_back(&service->ready, &call->link);
}

void service_wake_call(struct service_call *call)
{
    make_ready(call);
}

static void wait_over(void *arg)
{
    make_ready(arg);
}

void service_wait(struct service_call *call, const char *key, int64_t again_ms)
{
    struct service *service = call->service;
    struct list *room = strmap_get(&service->rooms, key);
    if (!room) {
        room = malloc(sizeof *room);
        if (!room || strmap_set(&service->rooms, key, room, NULL) < 0) {
            free(room);
            struct error err;
            error_set(&err, E_RESOURCE_EXHAUSTED, "out of memory");
            service_fail(call, &err);
            return;
        }
        list_init(room);
    }
    (void)str_copy(call->key, sizeof call->key, key);
    service->stats.waiting++;
    list_remove(&call->link);
    list_push_back(room, &call->link);
    int64_t due = call->deadline_ms - SERVICE_LONG_POLL_MARGIN_MS;
    loop_timer_set(service->options.loop, &call->timer, again_ms < due ? again_ms : due, wait_over,
                   call);
}

void service_wake(struct service *service, const char *key)
{
    struct list *room = strmap_get(&service->rooms, key);
    if (!room)
        return;
    while (!list_empty(room))
        make_ready(list_first(room, struct service_call, link));
    strmap_remove(&service->rooms, key);
    free(room);
}

void service_changed(struct service *service)
{
    service->nodes_settled = false;
    if (service->on_change)
        service->on_change(service->on_change_arg);
}

void service_on_change(struct service *service, void (*fn)(void *arg), void *arg)
{
    service->on_change = fn;
    service->on_change_arg = arg;
}

void service_everything_changed(struct service *service)
{
    service_changed(service);
    (void)service_load_access(service, NULL); /* if it cannot be read, changes are refused anyway */
    forget_specs(service); /* an id may have been taken back and given out again */
    for (struct map_entry *e = strmap_first(&service->rooms); e; e = strmap_first(&service->rooms))
        service_wake(service, e->name);
}

static void another_turn(void *arg)
{
    (void)arg;
}

/* A long poll must not outlive its token. */
static bool still_good(struct service *service, const struct service_call *call, struct error *err)
{
    if (!call->caller || access_good(call->caller, service_wall_ms(service)))
        return true;
    error_set(err, E_UNAUTHENTICATED, "this token is good no more");
    return false;
}

void service_turn_end(struct service *service)
{
    if (strmap_count(&service->specs) > SPECS_KEPT_MAX)
        forget_specs(service);
    struct list now;
    struct error err = {0};
    struct service_host *host = &service->options.host;
    bool readable = host->readable(host->self, &err);
    list_init(&now);
    list_splice_back(&now, &service->ready);
    while (!list_empty(&now)) {
        struct service_call *call = list_first(&now, struct service_call, link);
        list_remove(&call->link);
        bool last_chance =
            service_now_ms(service) >= call->deadline_ms - SERVICE_LONG_POLL_MARGIN_MS;
        struct error gone = {0};
        if (!readable)
            service_fail(call, &err);
        else if (!still_good(service, call, &gone))
            service_fail(call, &gone);
        else
            call->method->read(service, call, last_chance);
    }
    /* An answer may have led to the next call, as streams do: that is for another turn. */
    if (!list_empty(&service->ready))
        loop_timer_set(service->options.loop, &service->again, service_now_ms(service),
                       another_turn, NULL);
}

/* What the driver tells */

static void wake_job(struct service *service, const char *job)
{
    char key[JOB_ID_MAX + 8];
    (void)str_printf(key, sizeof key, "job/%s", job);
    service_wake(service, key);
    (void)str_printf(key, sizeof key, "logs/%s", job);
    service_wake(service, key);
    (void)str_printf(key, sizeof key, "board/%s", job);
    service_wake(service, key);
    const struct job *found = cluster_job(service_cluster(service), job);
    bool ended = !found || job_state_ended(found->state);
    board_forget(service->board, job, ended ? UINT64_MAX : found->current.generation);
}

void service_perform(struct service *service, const struct action *action)
{
    char key[NODE_NAME_MAX + 8];
    switch (action->kind) {
    case ACTION_ANSWER: {
        struct service_call *call = map_get(&service->calls, action->request);
        if (!call)
            return;
        if (action->error)
            service_fail(call, action->error);
        else
            call->method->done(service, call, action);
        return;
    }
    case ACTION_NODE_CHANGED:
        (void)str_printf(key, sizeof key, "poll/%s", action->node);
        service_wake(service, key);
        return;
    case ACTION_JOB_CHANGED:
        wake_job(service, action->job);
        return;
    case ACTION_STORE_JOB:
    case ACTION_STORE_NODE:
    case ACTION_RECORD:
    case ACTION_WAKE_AT:
        return;
    }
}

void service_written(struct service *service, const struct change *change)
{
    struct service_call *call = map_get(&service->calls, change->request);
    if (call && call->refusal) {
        struct error err = *call->refusal;
        service_fail(call, &err);
    } else if (call) {
        call->method->written(service, call);
    }
}

void service_forget_job(struct service *service, const char *job)
{
    service_changed(service);
    rpc_message_free(strmap_remove(&service->specs, job));
    strmap_remove(&service->late, job);
    (void)logs_forget(service->logs, job, NULL);
    (void)metrics_forget(service->metrics, job, NULL); /* what stays is looked for at a start */
    wake_job(service, job);
}

void service_events_recorded(struct service *service)
{
    service_wake(service, "events");
}

void service_fail_request(struct service *service, uint64_t request, const struct error *err)
{
    struct service_call *call = map_get(&service->calls, request);
    if (call)
        service_fail(call, err);
}

/* Which connection speaks for which node */

void service_link_agent(struct service *service, uint64_t peer, const char *node,
                        uint64_t incarnation)
{
    if (peer == 0)
        return;
    struct agent_link *link = strmap_get(&service->links, node);
    if (!link) {
        link = calloc(1, sizeof *link);
        if (!link || strmap_set(&service->links, node, link, NULL) < 0) {
            free(link); /* the lease still tells of its end, only later */
            return;
        }
        (void)str_copy(link->node, sizeof link->node, node);
    }
    link->incarnation = incarnation;
    if (link->peer == peer)
        return;
    if (map_get(&service->peers, link->peer) == link)
        map_remove(&service->peers, link->peer);
    link->peer = peer;
    if (map_set(&service->peers, peer, link, NULL) < 0)
        link->peer = 0;
}

/* Nobody waits for what was only asked; what was ordered goes on. */
static void forget_caller(struct service *service, uint64_t peer)
{
    struct list *calls = map_remove(&service->callers, peer), left;
    struct error err;
    if (!calls)
        return;
    error_set(&err, E_CANCELLED, "its connection is gone");
    list_init(&left);
    list_splice_back(&left, calls);
    free(calls);
    while (!list_empty(&left)) {
        struct service_call *call = list_first(&left, struct service_call, whose);
        list_remove(&call->whose);
        if (call->method->read)
            end(call, &err, NULL);
    }
}

void service_peer_gone(struct service *service, uint64_t peer)
{
    forget_caller(service, peer);
    struct agent_link *link = map_remove(&service->peers, peer);
    if (!link || link->peer != peer)
        return;
    link->peer = 0;
    struct event event = {
        .kind = EVENT_NODE_GONE,
        .node_gone = {.node = link->node, .incarnation = link->incarnation},
    };
    service->options.host.step(service->options.host.self, &event);
}
