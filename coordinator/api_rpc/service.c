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
    LATE_KEPT_MAX = 10000,
    OUTPUT_QUIET_MS = 300, /* an agent with more to ship reports again at once */
};

const struct service_method service_methods[] = {
    /* service, name, who may call, read, or change and done */
    {"Coordinator", "Version", SERVICE_NEEDS_NOTHING, .read = call_version},
    {"Coordinator", "SubmitJob", SERVICE_NEEDS_CLIENT, .change = call_submit_job, .done = done_job},
    {"Coordinator", "GetJob", SERVICE_NEEDS_CLIENT, .read = call_get_job},
    {"Coordinator", "WatchJob", SERVICE_NEEDS_CLIENT, .read = call_watch_job},
    {"Coordinator", "ListJobs", SERVICE_NEEDS_CLIENT, .read = call_list_jobs},
    {"Coordinator", "CancelJob", SERVICE_NEEDS_CLIENT, .change = call_cancel_job, .done = done_job},
    {"Coordinator", "WhyJob", SERVICE_NEEDS_CLIENT, .read = call_why_job},
    {"Coordinator", "GetLogs", SERVICE_NEEDS_CLIENT, .read = call_get_logs},
    {"Coordinator", "GetMetrics", SERVICE_NEEDS_CLIENT, .read = call_get_metrics},
    {"Coordinator", "ListCheckpoints", SERVICE_NEEDS_CLIENT, .read = call_list_checkpoints},
    {"Coordinator", "ListEvents", SERVICE_NEEDS_CLIENT, .read = call_list_events},
    {"Coordinator", "ListNodes", SERVICE_NEEDS_CLIENT, .read = call_list_nodes},
    {"Coordinator", "SetNode", SERVICE_NEEDS_CLIENT, .change = call_set_node,
     .done = done_set_node},
    {"Nodes", "RegisterNode", SERVICE_NEEDS_AGENT, .change = call_register_node,
     .done = done_register_node},
    {"Nodes", "Report", SERVICE_NEEDS_AGENT, .change = call_report, .done = done_report},
    {"Nodes", "Poll", SERVICE_NEEDS_AGENT, .read = call_poll},
    {"Nodes", "CommitCheckpoint", SERVICE_NEEDS_AGENT, .change = call_commit_checkpoint,
     .done = done_commit_checkpoint},
    {"Nodes", "Board", SERVICE_NEEDS_AGENT, .read = call_board},
    {.name = NULL},
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
    service->poll_epoch = (uint64_t)(epoch | 1) << 32;
    int rc = logs_new(&options->env->disk, options->data_dir, &service->logs, err);
    if (rc == 0)
        rc = metrics_new(&options->env->disk, options->data_dir, &service->metrics, err);
    if (rc == 0)
        rc = board_new(&service->board, err);
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
    loop_timer_cancel(service->options.loop, &call->timer);
    map_remove(&service->calls, call->id);
    rpc_message_free(call->request);
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
    for (struct map_entry *e = map_first(&service->calls); e; e = map_first(&service->calls))
        call_free(e->value);
    for (struct map_entry *e = strmap_first(&service->rooms); e; e = map_next(e))
        free(e->value);
    for (struct map_entry *e = strmap_first(&service->tokens); e; e = map_next(e))
        free(e->value);
    for (struct map_entry *e = strmap_first(&service->links); e; e = map_next(e))
        free(e->value);
    forget_specs(service);
    map_fini(&service->calls);
    map_fini(&service->peers);
    strmap_fini(&service->rooms);
    strmap_fini(&service->tokens);
    strmap_fini(&service->links);
    strmap_fini(&service->late);
    logs_free(service->logs);
    metrics_free(service->metrics);
    board_free(service->board);
    free(service);
}

/* Who may call */

int service_add_token(struct service *service, const struct store_token *token, struct error *err)
{
    char name[2 * TOKEN_HASH_BYTES + 1];
    hex_encode(token->hash, sizeof token->hash, name);
    struct store_token *copy = malloc(sizeof *copy);
    void *old = NULL;
    if (!copy || strmap_set(&service->tokens, name, copy, &old) < 0) {
        free(copy);
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    }
    *copy = *token;
    free(old);
    return 0;
}

int service_role(struct service *service, const char *token, char ret_role[TOKEN_ROLE_MAX + 1],
                 struct error *err)
{
    ret_role[0] = 0;
    if (!token || !*token) {
        error_set(err, E_UNAUTHENTICATED, "this call needs a token");
        error_hint(err, "pass --token, MUSTER_TOKEN or 'Authorization: Bearer ...'");
        return E_UNAUTHENTICATED;
    }
    int rc = token_check(token, NULL, err);
    if (rc < 0)
        return rc;
    uint8_t hash[TOKEN_HASH_BYTES];
    char name[2 * TOKEN_HASH_BYTES + 1];
    token_hash(token, hash);
    hex_encode(hash, sizeof hash, name);
    const struct store_token *known = strmap_get(&service->tokens, name);
    if (!known)
        return error_set(err, E_UNAUTHENTICATED, "this token is not known here");
    return str_copy(ret_role, TOKEN_ROLE_MAX + 1, known->role);
}

static int authorise(struct service *service, const struct service_method *method,
                     const char *token, struct error *err)
{
    const char *wanted = NULL;
    switch (method->need) {
    case SERVICE_NEEDS_NOTHING:
        return 0;
    case SERVICE_NEEDS_CLIENT:
        wanted = "admin";
        break;
    case SERVICE_NEEDS_AGENT:
        wanted = "agent";
        break;
    }
    char role[TOKEN_ROLE_MAX + 1];
    int rc = service_role(service, token, role, err);
    if (rc == 0 && strcmp(role, wanted) != 0)
        rc = error_set(err, E_PERMISSION_DENIED, "%s.%s needs a token of role %s, not %s",
                       method->service, method->name, wanted, role);
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

static struct service_call *call_new(struct service *service, const struct service_method *method,
                                     const struct service_request *request, struct error *err)
{
    struct service_call *call =
        service->calls.count < SERVICE_CALLS_MAX ? calloc(1, sizeof *call) : NULL;
    if (!call) {
        error_set(err, E_RESOURCE_EXHAUSTED, "too many calls are open");
        return NULL;
    }
    list_init(&call->link);
    call->service = service;
    call->id = ++service->next_id;
    call->method = method;
    call->deadline_ms = request->deadline_ms;
    call->peer = request->peer;
    call->answer = request->answer;
    call->arg = request->arg;
    call->tag = request->tag;
    if (method->read)
        call->request = rpc_message_copy(request->message);
    if ((method->read && !call->request) || map_set(&service->calls, call->id, call, NULL) < 0) {
        error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
        rpc_message_free(call->request);
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
    if (authorise(service, method, request->token, &err) < 0 ||
        (method->change && !host->writable(host->self, &err))) {
        refuse(service, request, &err);
        return;
    }
    struct service_call *call = call_new(service, method, request, &err);
    if (!call)
        refuse(service, request, &err);
    else if (method->change)
        method->change(service, call, request);
    else
        list_push_back(&service->ready, &call->link);
}

void service_answer(struct service_call *call, const ProtobufCMessage *answer)
{
    service_answer_fn fn = call->answer;
    void *arg = call->arg;
    uint64_t tag = call->tag;
    call_free(call);
    fn(arg, tag, NULL, answer);
}

void service_fail(struct service_call *call, const struct error *err)
{
    service_answer_fn fn = call->answer;
    void *arg = call->arg;
    uint64_t tag = call->tag;
    call->service->stats.failures++;
    call_free(call);
    fn(arg, tag, err, NULL);
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

void service_everything_changed(struct service *service)
{
    forget_specs(service); /* an id may have been taken back and given out again */
    for (struct map_entry *e = strmap_first(&service->rooms); e; e = strmap_first(&service->rooms))
        service_wake(service, e->name);
}

static void another_turn(void *arg)
{
    (void)arg;
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
        if (readable)
            call->method->read(service, call, last_chance);
        else
            service_fail(call, &err);
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

void service_peer_gone(struct service *service, uint64_t peer)
{
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

/* When a job's output is whole */

void service_late_output(struct service *service, const struct job *job)
{
    if (!job_state_ended(job->state))
        return;
    if (strmap_count(&service->late) >= LATE_KEPT_MAX)
        strmap_fini(&service->late);
    (void)strmap_set(&service->late, job->id, (void *)(intptr_t)service_wall_ms(service), NULL);
}

int64_t service_settled_wall_ms(const struct service *service, const struct job *job)
{
    int64_t late_ms = (intptr_t)strmap_get(&service->late, job->id);
    return (late_ms > job->ended_wall_ms ? late_ms : job->ended_wall_ms) + OUTPUT_QUIET_MS;
}

/* Shared by the files of calls */

const struct job *service_find_job(struct service *service, const char *id, struct error *err)
{
    const struct cluster *cluster = service_cluster(service);
    const struct job *job = cluster_job(cluster, id);
    if (!job)
        job = cluster_job_named(cluster, id);
    if (!job) {
        error_set(err, E_NOT_FOUND, "no job has the id or name '%.80s'", id);
        error_field(err, "id");
        error_hint(err, "muster ps lists jobs");
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
    insist(rc == 0 || rc == E_RESOURCE_EXHAUSTED); /* it came from such a message */
    insist(message && strmap_set(&service->specs, job->id, message, NULL) == 0);
    return (Muster__JobSpec *)message;
}

int service_parse_spec(void *arg, const char *json, struct spec **ret, struct error *err)
{
    (void)arg;
    ProtobufCMessage *message;
    int rc = transcode_from_json(json, strlen(json), &muster__job_spec__descriptor, &message, err);
    if (rc < 0)
        return rc;
    rc = intake_spec((const Muster__JobSpec *)message, ret, err);
    rpc_message_free(message);
    return rc;
}

void service_stats(const struct service *service, struct service_stats *ret)
{
    *ret = service->stats;
    ret->open = (uint32_t)service->calls.count;
}
