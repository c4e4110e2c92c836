#include "coordinator/api_rpc/replay.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/rpc/message.h"
#include "common/rpc/transcode.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/store/document.h"

enum { REPLAY_PAGE_DEFAULT = 100 };

static const char *const kinds[] = {
    [STORE_PAST_NODE] = "node/", [STORE_PAST_TENANT] = "tenant/", [STORE_PAST_JOB] = "job/"};

struct reading {
    struct replay_page *page;
    struct store_past_query query;
    int read;
    char last[STORE_TENANT_MAX + 32]; /* name or number of the last one */
    bool newest;
    struct error *err;
    int rc;
};

/* "node/NAME", "tenant/NAME", "job/NUMBER": the last entry sent. "" begins. */
static int read_cursor(const char *cursor, struct store_past_query *ret, struct error *err)
{
    int64_t number = 0;
    int rc = E_INVALID_ARGUMENT;
    for (int kind = STORE_PAST_NODE; kind <= STORE_PAST_JOB; kind++) {
        size_t size = strlen(kinds[kind]);
        if (strncmp(cursor, kinds[kind], size) != 0)
            continue;
        ret->kind = (enum store_past_kind)kind;
        ret->after = cursor + size;
        rc = 0;
        if (kind == STORE_PAST_JOB && *ret->after)
            rc = parse_i64(ret->after, 0, INT64_MAX, &number, NULL);
        ret->after_sequence = (uint64_t)number;
    }
    if (!rc || !*cursor)
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "'%.80s' is no cursor", cursor);
    error_field(err, "cursor");
    return E_INVALID_ARGUMENT;
}

static int add_node(struct reading *reading, const struct store_past *past)
{
    struct replay_page *page = reading->page;
    struct node *node = arena_zalloc(&page->arena, sizeof(*node));
    if (!node)
        return E_RESOURCE_EXHAUSTED;
    int rc = document_read_node(past->document, strlen(past->document), node, reading->err);
    Muster__Node *message = rc ? NULL : wire_node(&page->arena, node);
    if (message && !wire_show_all(&page->arena, message->reason))
        message = NULL;
    page->answer.nodes[page->answer.n_nodes] = message;
    if (message)
        page->answer.n_nodes++;
    return !rc && !message ? E_RESOURCE_EXHAUSTED : rc;
}

static int add_tenant(struct reading *reading, const struct store_past *past)
{
    struct replay_page *page = reading->page;
    struct store_tenant *tenant = arena_zalloc(&page->arena, sizeof(*tenant));
    Muster__Tenant *message = arena_alloc(&page->arena, sizeof(*message));
    if (!tenant || !message)
        return E_RESOURCE_EXHAUSTED;
    int rc = document_read_tenant(past->document, strlen(past->document), tenant, reading->err);
    muster__tenant__init(message);
    message->name = tenant->name;
    message->weight = (uint32_t)tenant->weight;
    message->guaranteed_slots = (uint32_t)tenant->guaranteed_slots;
    message->limit_slots = (uint32_t)tenant->limit_slots;
    message->created_wall_ms = tenant->created_wall_ms;
    if (!rc)
        page->answer.tenants[page->answer.n_tenants++] = message;
    return rc;
}

static int wire_past_job(struct replay_page *page, const struct job *job, Muster__JobSpec *spec)
{
    Muster__Job *message = wire_job(&page->arena, job, spec, true);
    if (message && job->ledger.open)
        message->ledger = wire_ledger(&page->arena, job->ledger.ms, job->ledger.rework_steps);
    if (!message || (job->ledger.open && !message->ledger) ||
        !wire_show_all(&page->arena, message->reason))
        return E_RESOURCE_EXHAUSTED;
    page->answer.jobs[page->answer.n_jobs++] = message;
    return 0;
}

static int add_job(struct reading *reading, const struct store_past *past)
{
    struct replay_page *page = reading->page;
    struct job *job = calloc(1, sizeof(*job));
    int at = page->jobs_count;
    if (!job)
        return E_RESOURCE_EXHAUSTED;
    page->jobs[page->jobs_count++] = job;
    int rc = document_read_job(past->document, strlen(past->document), job, reading->err);
    if (!rc && *past->spec)
        rc = transcode_from_json(past->spec, strlen(past->spec), &muster__job_spec__descriptor,
                                 &page->specs[at], reading->err);
    if (rc)
        return rc;
    return wire_past_job(page, job, (Muster__JobSpec *)page->specs[at]);
}

static int compare_with_present(struct reading *reading, const struct store_past *past)
{
    Muster__ReplayAnswer *answer = &reading->page->answer;
    if (!reading->newest)
        return 0;
    answer->compared++;
    if (strcmp(past->document, past->now) == 0)
        return 0;
    char *name =
        arena_printf(&reading->page->arena, "%s%s", kinds[reading->query.kind], reading->last);
    if (name)
        answer->differing[answer->n_differing++] = name;
    return name ? 0 : E_RESOURCE_EXHAUSTED;
}

static void add_past(void *arg, const struct store_past *past)
{
    static int (*const adders[])(struct reading *, const struct store_past *) = {
        [STORE_PAST_NODE] = add_node, [STORE_PAST_TENANT] = add_tenant, [STORE_PAST_JOB] = add_job};
    struct reading *reading = arg;
    if (reading->rc)
        return;
    reading->read++;
    if (reading->query.kind == STORE_PAST_JOB)
        (void)str_printf(reading->last, sizeof(reading->last), "%llu",
                         (unsigned long long)past->sequence);
    else
        (void)str_copy(reading->last, sizeof(reading->last), past->name);
    reading->rc = compare_with_present(reading, past);
    if (!reading->rc && *past->document)
        reading->rc = adders[reading->query.kind](reading, past);
}

static int find_event(struct store *store, const Muster__ReplayRequest *request,
                      Muster__ReplayAnswer *ret, struct error *err)
{
    struct store_past_range range;
    int rc = store->verbs->past_range(store, request->at_wall_ms, &range, err);
    if (rc)
        return rc;
    ret->first = range.first;
    ret->last = range.last;
    ret->at = request->at ? request->at : request->at_wall_ms ? range.at : range.last;
    return 0;
}

/* The cursor of the rest: more of this kind, the next kind, or nothing. */
static int next_cursor(const struct reading *reading, Muster__ReplayAnswer *ret)
{
    enum store_past_kind kind = reading->query.kind;
    bool more = reading->read == reading->query.limit;
    if (!more && kind == STORE_PAST_JOB)
        return 0;
    ret->next_cursor =
        arena_printf(&reading->page->arena, "%s%s", more ? kinds[kind] : kinds[kind + 1],
                     more ? reading->last : "");
    return ret->next_cursor ? 0 : E_RESOURCE_EXHAUSTED;
}

static int read_page(struct store *store, struct reading *reading, struct error *err)
{
    struct replay_page *page = reading->page;
    Muster__ReplayAnswer *answer = &page->answer;
    size_t limit = (size_t)reading->query.limit;
    answer->nodes = arena_pointers(&page->arena, limit);
    answer->tenants = arena_pointers(&page->arena, limit);
    answer->jobs = arena_pointers(&page->arena, limit);
    answer->differing = arena_pointers(&page->arena, limit);
    if (!answer->nodes || !answer->tenants || !answer->jobs || !answer->differing)
        return E_RESOURCE_EXHAUSTED;
    int rc = store->verbs->list_past(store, &reading->query, add_past, reading, err);
    if (!rc)
        rc = reading->rc;
    if (rc)
        return rc;
    return next_cursor(reading, answer);
}

int replay_page_read(struct store *store, const Muster__ReplayRequest *request,
                     struct replay_page *ret, struct error *err)
{
    uint32_t limit = request->limit ? request->limit : REPLAY_PAGE_DEFAULT;
    *ret = (struct replay_page){0};
    muster__replay_answer__init(&ret->answer);
    arena_init(&ret->arena, WIRE_ARENA_MAX_BYTES);
    struct reading reading = {.page = ret, .err = err};
    reading.query.limit = limit > REPLAY_PAGE_MAX ? REPLAY_PAGE_MAX : (int)limit;
    int rc = read_cursor(request->cursor, &reading.query, err);
    if (!rc)
        rc = find_event(store, request, &ret->answer, err);
    if (rc)
        return rc;
    reading.query.seq = ret->answer.at;
    reading.newest = ret->answer.at == ret->answer.last;
    rc = read_page(store, &reading, err);
    if (rc == E_RESOURCE_EXHAUSTED)
        error_set(err, rc, "the answer is too large");
    return rc;
}

void replay_page_fini(struct replay_page *page)
{
    for (int i = 0; i < page->jobs_count; i++) {
        job_free(page->jobs[i]);
        rpc_message_free(page->specs[i]);
    }
    page->jobs_count = 0;
    arena_fini(&page->arena);
}

void call_replay(struct service *service, struct service_call *call, bool last_chance)
{
    struct replay_page *page = malloc(sizeof(*page));
    struct error err = {0};
    (void)last_chance;
    if (!page) {
        error_set(&err, E_RESOURCE_EXHAUSTED, "out of memory");
        service_fail(call, &err);
        return;
    }
    if (replay_page_read(service->options.store, (const void *)call->request, page, &err))
        service_fail(call, &err);
    else
        service_answer(call, &page->answer.base);
    replay_page_fini(page);
    free(page);
}
