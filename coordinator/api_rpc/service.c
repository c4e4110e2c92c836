#include "coordinator/api_rpc/service.h"

#include <limits.h>
#include <stdlib.h>

#include "common/base/str.h"
#include "common/env/env.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/channels.h"
#include "coordinator/api_rpc/job_data.h"
#include "coordinator/api_rpc/method.h"
#include "coordinator/api_rpc/quota.h"
#include "coordinator/api_rpc/service_admit.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_nodes.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/service_wait.h"
#include "coordinator/api_rpc/stored_spec.h"

enum {
    SPECS_KEPT_MAX = 20000,
};

static void keep_text(char *ret, size_t size, const char *text)
{
    (void)str_copy(ret, size, text ? text : "");
}

static int secrets_begin(struct service *service, struct error *err)
{
    char path[PATH_MAX];
    const struct service_options *options = &service->options;
    struct secrets_options how = {options->env, options->secrets_key_path, options->secrets_key};
    if (!how.key_path) {
        if (str_printf(path, sizeof(path), "%s/secrets.key", options->data_dir))
            return error_set(err, E_INVALID_ARGUMENT, "the data directory's path is too long");
        how.key_path = path;
    }
    return secrets_new(&how, &service->secrets, err);
}

int service_new(const struct service_options *options, struct service **ret, struct error *err)
{
    struct service *service = calloc(1, sizeof(*service));
    if (!service)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    service->options = *options;
    service->methods = service_methods;
    budgets_init(&service->budgets);
    keep_text(service->version, sizeof(service->version), options->version);
    keep_text(service->commit, sizeof(service->commit), options->commit);
    keep_text(service->cluster_id, sizeof(service->cluster_id), options->cluster_id);
    keep_text(service->pin, sizeof(service->pin), options->pin);
    uint32_t epoch;
    options->env->rng.fill(options->env->rng.self, &epoch, sizeof(epoch));
    service->poll_epoch = (uint64_t)((epoch & INT32_MAX) | 1) << 32; /* fits an int64 too */
    service->nodes_version = service->nodes_gone_above = service->poll_epoch;
    list_init(&service->nodes_gone);
    int rc = logs_new(&options->env->disk, options->data_dir, &service->logs, err);
    if (!rc)
        rc = metrics_new(&options->env->disk, options->data_dir, &service->metrics, err);
    if (!rc)
        rc = kept_new(&service->kept, err);
    if (!rc)
        rc = audit_folds_new(&service->audit_folds, err);
    if (!rc)
        rc = quota_rates_new(&service->quota_rates, err);
    if (!rc)
        rc = board_new(&service->board, err);
    if (!rc)
        rc = rank_figures_new(&service->figures, err);
    if (!rc)
        rc = relay_new(options->channel_idle_ms, &service->relay, err);
    if (!rc)
        rc = access_new(&service->access, err);
    if (!rc)
        rc = secrets_begin(service, err);
    if (rc)
        service_free(service);
    else
        *ret = service;
    return rc;
}

void service_free(struct service *service)
{
    if (!service)
        return;
    loop_timer_cancel(service->options.loop, &service->again);
    loop_timer_cancel(service->options.loop, &service->backup);
    loop_timer_cancel(service->options.loop, &service->audit_minute);
    loop_timer_cancel(service->options.loop, &service->channels);
    for (struct map_entry *e = map_first(&service->calls); e; e = map_first(&service->calls))
        service_call_free(e->value);
    strmap_free_values(&service->waiting);
    service_forget_specs(service);
    map_fini(&service->calls);
    connections_fini(&service->connections);
    access_free(service->access);
    secrets_free(service->secrets);
    loop_timer_cancel(service->options.loop, &service->uses);
    strmap_free_values(&service->late_outputs);
    strmap_fini(&service->had);
    strmap_free_values(&service->nodes_shown);
    logs_free(service->logs);
    metrics_free(service->metrics);
    kept_free(service->kept);
    quota_rates_free(service->quota_rates);
    audit_folds_free(service->audit_folds);
    board_free(service->board);
    rank_figures_free(service->figures);
    relay_free(service->relay);
    budgets_fini(&service->budgets);
    free(service);
}

/* One call from its start to its answer */

/* Reads end with their connection, changes do not (service_peer_gone). 0 has no connection: REST
 * notices by itself when a client disconnects. */
static int remember_connection(struct service *service, struct service_call *call,
                               const struct service_request *request)
{
    if (request->peer == 0 || !call->method->read)
        return 0;
    call->connection = connection_get(&service->connections, request->peer, request->peer_data);
    if (!call->connection)
        return E_RESOURCE_EXHAUSTED;
    list_push_back(&call->connection->reads, &call->in_connection);
    return 0;
}

static struct service_call *call_new(struct service *service, const struct service_method *method,
                                     const struct service_request *request, struct error *err)
{
    struct budget *budget = service_budget(service, method, request, err);
    struct service_call *call = budget ? calloc(1, sizeof(*call)) : NULL;
    if (!call) {
        if (budget) {
            budget_close(&service->budgets, budget, method->plans);
            error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
        }
        return NULL;
    }
    call->budget = budget;
    call->ready.plan = method->plans;
    list_init(&call->ready.link);
    list_init(&call->link);
    list_init(&call->in_connection);
    call->service = service;
    call->id = ++service->next_id;
    call->method = method;
    call->caller = request->caller;
    call->role = request->role;
    call->deadline_ms = request->deadline_ms;
    call->answer = request->answer;
    call->arg = request->arg;
    call->tag = request->tag;
    if (method->read)
        call->request = rpc_message_copy(request->message);
    if (service_audits(method) && (call->trace = calloc(1, sizeof(*call->trace))))
        service_trace_init(call->trace, request);
    if ((method->read && !call->request) || (service_audits(method) && !call->trace) ||
        remember_connection(service, call, request) ||
        map_set(&service->calls, call->id, call, NULL)) {
        error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
        budget_close(&service->budgets, budget, method->plans);
        list_remove(&call->in_connection);
        rpc_message_free(call->request);
        free(call->trace);
        free(call);
        return NULL;
    }
    return call;
}

static void refuse_request(struct service *service, const struct service_request *request,
                           const struct error *err)
{
    service->stats.failures++;
    request->answer(request->arg, request->tag, err, NULL);
}

void service_start(struct service *service, const struct service_request *asked)
{
    struct error err = {0};
    struct service_request request = *asked;
    struct service_host *host = &service->options.host;
    service->stats.calls++;
    if (!request.admitted && service_admit(service, &request, 0, &err)) {
        refuse_request(service, asked, &err);
        return;
    }
    const struct service_method *method = service_find_method(service, &request);
    if (method->change && !host->writable(host->self, &err)) {
        refuse_request(service, asked, &err);
        return;
    }
    struct service_call *call = call_new(service, method, &request, &err);
    if (!call)
        refuse_request(service, asked, &err);
    else if (method->change)
        method->change(service, call, &request);
    else
        budget_ready(&service->budgets, call->budget, &call->ready);
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
    (void)service_load_access(service, NULL); /* if it is unreadable, changes are refused anyway */
    service_load_nodes(service);
    service_forget_specs(service); /* an id may have been removed and used again */
    strmap_fini(&service->had);
    channels_job_changed(service, NULL);
    service_wake_all(service);
}

static void begin_turn(void *arg)
{
    (void)arg;
}

/* A long poll must not outlive its token. */
static bool check_token(struct service *service, const struct service_call *call, struct error *err)
{
    if (!call->caller || access_is_valid(call->caller, service_wall_ms(service)))
        return true;
    if (service->options.keyed && call->method->roles == ACCESS_AGENT)
        service_unknown_key(err);
    else
        error_set(err, E_UNAUTHENTICATED, "this token is good no more");
    return false;
}

/* The clock now: the loop's time is constant during a turn. */
static int64_t clock_ms(const struct service *service)
{
    const struct clock *clock = &service->options.env->clock;
    return clock->now_ms(clock->self);
}

static void serve_read(struct service *service, struct service_call *call,
                       const struct error *unreadable)
{
    bool last_chance = service_now_ms(service) >= call->deadline_ms - SERVICE_LONG_POLL_MARGIN_MS;
    bool plans = call->method->plans;
    int64_t from_ms = plans ? clock_ms(service) : 0;
    struct error gone = {0};
    if (unreadable)
        service_fail(call, unreadable);
    else if (!check_token(service, call, &gone))
        service_fail(call, &gone);
    else
        call->method->read(service, call, last_chance);
    if (plans)
        budgets_planned(&service->budgets, from_ms, clock_ms(service));
}

void service_turn_end(struct service *service)
{
    if (strmap_count(&service->specs) > SPECS_KEPT_MAX)
        service_forget_specs(service);
    service_sweep_nodes(service);
    struct error err = {0};
    struct service_host *host = &service->options.host;
    bool readable = host->readable(host->self, &err);
    int64_t now_ms = clock_ms(service), until_ms = now_ms + BUDGET_TURN_MS;
    struct budget_ready *ready;
    budgets_begin(&service->budgets);
    while (now_ms < until_ms && (ready = budgets_next(&service->budgets, now_ms))) {
        struct service_call *call = list_entry(ready, struct service_call, ready);
        serve_read(service, call, readable ? NULL : &err);
        now_ms = clock_ms(service);
    }
    int64_t again_ms = budgets_end(&service->budgets, now_ms);
    if (again_ms < INT64_MAX)
        loop_timer_set(service->options.loop, &service->again, again_ms, begin_turn, NULL);
}

/* Calls from the driver */

static void wake_job(struct service *service, const char *job)
{
    service_wake(service, WAIT_JOB, job);
    service_wake(service, WAIT_LOGS, job);
    service_wake(service, WAIT_BOARD, job);
    const struct job *found = cluster_job(service_cluster(service), job);
    bool ended = !found || job_state_ended(found->state);
    board_forget(service->board, job, ended ? UINT64_MAX : found->current.generation);
    channels_job_changed(service, job);
}

void service_perform(struct service *service, const struct action *action)
{
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
        service_wake(service, WAIT_NODE, action->node);
        return;
    case ACTION_JOB_CHANGED:
        wake_job(service, action->job);
        return;
    case ACTION_FORGET_NODE:
        service_forget_node(service, action->node, action->key);
        service_wake(service, WAIT_NODE, action->node);
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
    free(strmap_remove(&service->late_outputs, job));
    service_forget_output(service, job);
    rank_figures_forget(service->figures, job);
    wake_job(service, job);
}

void service_events_recorded(struct service *service)
{
    service_wake(service, WAIT_EVENTS, "");
}

void service_fail_request(struct service *service, uint64_t request, const struct error *err)
{
    struct service_call *call = map_get(&service->calls, request);
    if (call)
        service_fail(call, err);
}

/* Reads lose their waiting client; changes continue. */
static void end_reads(struct connection *connection)
{
    struct error err;
    struct list left;
    error_set(&err, E_CANCELLED, "its connection is lost");
    list_init(&left);
    list_splice_back(&left, &connection->reads);
    while (!list_empty(&left)) {
        struct service_call *call = list_first(&left, struct service_call, in_connection);
        list_remove(&call->in_connection);
        service_call_end(call, &err, NULL);
    }
}

void service_peer_gone(struct service *service, uint64_t peer)
{
    const struct agent_link *link = NULL;
    struct connection *connection = connection_remove(&service->connections, peer, &link);
    if (!connection)
        return;
    end_reads(connection);
    free(connection);
    if (!link)
        return;
    struct event event = {
        .kind = EVENT_NODE_GONE,
        .node_gone = {.node = link->node, .incarnation = link->incarnation},
    };
    service->options.host.step(service->options.host.self, &event);
}

int service_store_secret(struct service *service, const struct change *change, struct error *err)
{
    struct store *store = service->options.store;
    const char *tenant = change->secret.tenant, *name = change->secret.name;
    const struct store_secret *secret = secrets_find(service->secrets, tenant, name);
    return secret ? store->verbs->put_secret(store, secret, err)
                  : store->verbs->remove_secret(store, tenant, name, err);
}

void service_stats(const struct service *service, struct service_stats *ret)
{
    *ret = service->stats;
    ret->open = (uint32_t)service->calls.count;
    ret->refused = service->budgets.refused;
    ret->metrics_memory_bytes = (uint64_t)metrics_memory(service->metrics, NULL);
}

void service_stop(struct service *service)
{
    service_audit_flush(service);
}
