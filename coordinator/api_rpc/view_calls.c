#include <string.h>

#include "common/base/str.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/job_query.h"
#include "coordinator/api_rpc/output_end.h"
#include "coordinator/api_rpc/quota.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/service_wait.h"
#include "coordinator/api_rpc/wire.h"

enum {
    LIST_EVENTS_DEFAULT = 100,
    LINGER_MAX_MS = 2 * OUTPUT_PATIENCE_MS, /* a longer wait: wall time has jumped. Do not wait */
};

void call_version(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    Muster__VersionAnswer answer = MUSTER__VERSION_ANSWER__INIT;
    answer.version = service->version;
    answer.commit = service->commit;
    answer.cluster = service->cluster_id;
    answer.protocol = SERVICE_PROTOCOL_VERSION;
    service_answer(call, &answer.base);
}

static bool wire_lines(struct arena *arena, const struct logs_page *page,
                       Muster__GetLogsAnswer *ret)
{
    size_t count = (size_t)page->count;
    Muster__LogLine *lines = arena_array(arena, count, sizeof(*lines));
    ret->lines = arena_pointers(arena, count);
    if (!lines || !ret->lines)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct log_line *from = &page->lines[i];
        muster__log_line__init(&lines[i]);
        lines[i].wall_ms = from->wall_ms;
        lines[i].rank = from->rank;
        lines[i].generation = from->generation;
        lines[i].is_stderr = from->is_stderr;
        lines[i].is_stacks = from->is_stacks;
        lines[i].text = rpc_text(from->text);
        ret->lines[i] = &lines[i];
    }
    ret->n_lines = count;
    return true;
}

static int read_logs(struct service *service, const struct job *job, struct service_call *call,
                     struct arena *arena, struct logs_page *ret, struct error *err)
{
    const Muster__GetLogsRequest *message = (const void *)call->request;
    struct logs_query query = {
        .rank = message->rank,
        .cursor = message->cursor,
        .tail_lines = message->tail_lines,
        .max_bytes = message->max_bytes,
    };
    return logs_read(service->logs, job->id, &query, arena, ret, err);
}

/* A follower that has read everything waits at the end: its first tail is then before that. */
static void wait_for_lines(struct service_call *call, const struct job *job, uint64_t cursor,
                           int64_t again_ms)
{
    Muster__GetLogsRequest *message = (void *)call->request;
    message->cursor = cursor;
    service_wait(call, WAIT_LOGS, job->id, again_ms);
}

static int ranks_of(const struct job *job)
{
    if (job->current.world)
        return job->current.world;
    return (job->nodes_max ? job->nodes_max : job->spec->nodes_max) * job->spec->workers_per_node;
}

/* Called only if there is no line: an earlier, larger world may have left some. */
static int check_rank(const struct job *job, const Muster__GetLogsRequest *message,
                      const struct logs_page *page, struct error *err)
{
    bool nothing = message->cursor == 0 && page->count == 0 && page->at_end && !message->follow;
    int ranks = ranks_of(job);
    if (message->rank >= -1 && (message->rank < ranks || !nothing))
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "job %s has no rank %d", job->id, message->rank);
    error_field(err, "rank");
    error_hint(err, ranks > 1 ? "its ranks are 0 to %d" : "its only rank is %d", ranks - 1);
    return err->code;
}

void call_get_logs(struct service *service, struct service_call *call, bool last_chance)
{
    const Muster__GetLogsRequest *message = (const void *)call->request;
    struct error err = {0};
    const struct job *job = service_find_job(call, message->id, &err);
    struct arena arena;
    struct logs_page page = {0};
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    if (!job || read_logs(service, job, call, &arena, &page, &err) ||
        check_rank(job, message, &page, &err)) {
        arena_fini(&arena);
        service_fail(call, &err);
        return;
    }
    bool ended = job_state_ended(job->state);
    int64_t left_ms =
        ended ? service_output_complete_ms(service, job) - service_wall_ms(service) : 0;
    bool settled = ended && (left_ms <= 0 || left_ms > LINGER_MAX_MS);
    if (message->follow && !last_chance && page.count == 0 && page.at_end && !settled) {
        arena_fini(&arena);
        wait_for_lines(call, job, page.cursor,
                       ended ? service_now_ms(service) + left_ms : INT64_MAX);
        return;
    }
    Muster__GetLogsAnswer answer = MUSTER__GET_LOGS_ANSWER__INIT;
    answer.cursor = page.cursor;
    answer.ended = settled && page.at_end;
    service_answer_whole(call, wire_lines(&arena, &page, &answer), &answer.base);
    arena_fini(&arena);
}

static bool wire_series(struct arena *arena, const struct metric_series *from, int count,
                        Muster__GetMetricsAnswer *ret)
{
    ret->series = arena_pointers(arena, (size_t)count);
    for (int i = 0; ret->series && i < count; i++) {
        Muster__MetricSeries *series = arena_alloc(arena, sizeof(*series));
        Muster__MetricPoint *points = arena_array(arena, (size_t)from[i].count, sizeof(*points));
        if (!series || !points)
            return false;
        muster__metric_series__init(series);
        series->name = rpc_text(from[i].name);
        series->points = arena_pointers(arena, (size_t)from[i].count);
        if (!series->points)
            return false;
        for (int j = 0; j < from[i].count; j++) {
            muster__metric_point__init(&points[j]);
            points[j].step = from[i].points[j].step;
            points[j].value = from[i].points[j].value;
            points[j].wall_ms = from[i].points[j].wall_ms;
            series->points[series->n_points++] = &points[j];
        }
        ret->series[ret->n_series++] = series;
    }
    return ret->series;
}

void call_get_metrics(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const Muster__GetMetricsRequest *message = (const void *)call->request;
    struct error err = {0};
    const struct job *job = service_find_job(call, message->id, &err);
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    struct metric_series *series = NULL;
    int count = 0;
    struct metrics_query query = {
        .name = message->name,
        .names = message->series,
        .after_step = message->after_step,
        .max_points = message->max_points,
    };
    struct metrics_job of = job ? quota_metrics_of(service, job) : (struct metrics_job){0};
    if (job)
        (void)metrics_read(service->metrics, &of, &query, &arena, &series, &count, &err);
    if (err.code) {
        service_fail(call, &err);
    } else {
        Muster__GetMetricsAnswer answer = MUSTER__GET_METRICS_ANSWER__INIT;
        service_answer_whole(call, wire_series(&arena, series, count, &answer), &answer.base);
    }
    arena_fini(&arena);
}

struct page_of_events {
    struct service_call *call;
    struct arena *arena;
    Muster__ListEventsAnswer *answer;
    size_t limit;
    int read;
    bool failed;
};

static void add_event(void *arg, const struct store_event *event)
{
    struct page_of_events *page = arg;
    page->read++;
    if (page->failed || page->answer->n_events == page->limit)
        return;
    page->answer->next = event->seq;
    if (!scope_sees_event(page->call, &event->record))
        return;
    Muster__Event *message = wire_event(page->arena, event);
    if (message && scope_reason(page->call, page->arena, message->reason))
        page->answer->events[page->answer->n_events++] = message;
    else
        page->failed = true;
}

/* A caller that sees only some events gets one page from a few pages of the log; `next` is their
 * end. */
static int read_pages(struct page_of_events *page, struct store_events_query *query,
                      struct error *err)
{
    enum { PAGES_MAX = 20 };
    struct store *store = page->call->service->options.store;
    bool filtered = scope_tenant(page->call) && !*query->job;
    int rc = 0;
    if (filtered)
        query->limit = STORE_EVENTS_PAGE_MAX;
    for (int i = 0; !rc && i < (filtered && !query->newest ? PAGES_MAX : 1); i++) {
        page->read = 0;
        query->after = page->answer->next;
        rc = store->verbs->list_events(store, query, add_event, page, err);
        if (page->failed)
            rc = E_RESOURCE_EXHAUSTED;
        if (page->read < query->limit || page->answer->n_events == page->limit)
            break;
    }
    return rc;
}

static int read_events(struct service_call *call, struct page_of_events *page, struct error *err)
{
    const Muster__ListEventsRequest *message = (const void *)call->request;
    const struct job *job = NULL;
    if (*message->job && !(job = service_find_job(call, message->job, err)))
        return err->code;
    uint32_t limit = message->limit ? message->limit : LIST_EVENTS_DEFAULT;
    page->limit = limit > STORE_EVENTS_PAGE_MAX ? STORE_EVENTS_PAGE_MAX : limit;
    if (message->newest && scope_tenant(call)) /* the number of visible ones in a page is unknown in
                                                * advance */
        page->limit = STORE_EVENTS_PAGE_MAX;
    struct store_events_query query = {
        .job = job ? job->id : "", .limit = (int)page->limit, .newest = message->newest};
    page->answer->next = message->after;
    page->answer->events = arena_pointers(page->arena, page->limit);
    int rc = page->answer->events ? read_pages(page, &query, err) : E_RESOURCE_EXHAUSTED;
    if (rc == E_RESOURCE_EXHAUSTED)
        error_set(err, rc, "the answer is too large");
    return rc;
}

void call_list_events(struct service *service, struct service_call *call, bool last_chance)
{
    (void)service;
    Muster__ListEventsRequest *message = (void *)call->request;
    Muster__ListEventsAnswer answer = MUSTER__LIST_EVENTS_ANSWER__INIT;
    struct error err = {0};
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    struct page_of_events page = {.call = call, .arena = &arena, .answer = &answer};
    if (read_events(call, &page, &err)) {
        service_fail(call, &err);
    } else if (message->follow && answer.n_events == 0 && !last_chance) {
        message->after = answer.next; /* events hidden from this caller are skipped */
        service_wait(call, WAIT_EVENTS, "", INT64_MAX);
    } else {
        service_answer(call, &answer.base);
    }
    arena_fini(&arena);
}

void call_set_node(struct service *service, struct service_call *call,
                   const struct service_request *request)
{
    static const char *const names[] = {"cordon", "drain", "uncordon", "rekey", NULL};
    static const enum node_command commands[] = {NODE_CORDON, NODE_DRAIN, NODE_UNCORDON,
                                                 NODE_REKEY};
    const Muster__SetNodeRequest *message = (const void *)request->message;
    struct error err = {0};
    char detail[256];
    (void)str_printf(detail, sizeof(detail), "%s%s%s", message->action,
                     *message->reason ? ": " : "", message->reason);
    service_trace(call, message->name, detail);
    int which = 0;
    while (names[which] && strcmp(names[which], message->action) != 0)
        which++;
    if (!names[which]) {
        error_set(&err, E_INVALID_ARGUMENT, "unknown action '%.40s'", message->action);
        error_field(&err, "action");
        error_hint(&err, "cordon, drain, uncordon or rekey");
    } else if (!cluster_node(service_cluster(service), message->name)) {
        error_set(&err, E_NOT_FOUND, "no node is named '%.80s'", message->name);
        error_field(&err, "name");
        error_hint(&err, "muster nodes lists them");
    }
    if (err.code) {
        service_fail(call, &err);
        return;
    }
    if (commands[which] == NODE_REKEY)
        access_forget_node(service->access,
                           cluster_node(service_cluster(service), message->name)->key);
    struct event event = {
        .kind = EVENT_NODE_SET,
        .request = call->id,
        .node_set = {.node = message->name, .command = commands[which], .reason = message->reason},
    };
    service->options.host.step(service->options.host.self, &event);
}

void done_set_node(struct service *service, struct service_call *call, const struct action *action)
{
    const struct node *node = cluster_node(service_cluster(service), action->node);
    struct arena arena;
    struct error err = {0};
    if (!node) { /* while the change was being stored */
        error_set(&err, E_NOT_FOUND, "node '%.80s' was lost, and has been forgotten", action->node);
        error_hint(&err, "its agent can join again with a join token");
        service_fail(call, &err);
        return;
    }
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    Muster__Node *message = wire_node(&arena, node);
    if (message)
        wire_uses(service_cluster(service), &message, 1);
    bool whole = message && scope_node(call, &arena, message);
    service_answer_whole(call, whole, whole ? &message->base : NULL);
    arena_fini(&arena);
}
