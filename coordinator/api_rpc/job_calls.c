#include <string.h>

#include "common/base/assert.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/intake.h"
#include "coordinator/api_rpc/intake_spec.h"
#include "coordinator/api_rpc/job_query.h"
#include "coordinator/api_rpc/quota.h"
#include "coordinator/api_rpc/rank_pace.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/secret_delivery.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/service_wait.h"
#include "coordinator/api_rpc/stored_spec.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/core/why.h"
#include "coordinator/model/cluster_walk.h"

enum {
    LIST_JOBS_DEFAULT = 100,
    LIST_JOBS_MAX = 1000,
    WHY_REASONS_MAX = 64,
    WHY_EVENTS = 50,
};

static void fail_too_large(struct service_call *call)
{
    struct error err;
    error_set(&err, E_RESOURCE_EXHAUSTED, "the answer is too large");
    service_fail(call, &err);
}

static void answer_job(struct service_call *call, const struct job *job)
{
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    Muster__Job *message = service_show_job(call->service, &arena, job, true);
    if (message && scope_job(call, &arena, message))
        service_answer(call, &message->base);
    else
        fail_too_large(call);
    arena_fini(&arena);
}

/* The stored spec if this request repeats the one that made the job, even if this version would
 * write it differently or refuse it; otherwise NULL. */
static struct spec *accepted_before(struct service *service, const Muster__JobSpec *wanted,
                                    const char *key)
{
    const char *tenant = wanted->tenant && *wanted->tenant ? wanted->tenant : "default";
    const struct job *job = *key ? cluster_job_by_key(service_cluster(service), tenant, key) : NULL;
    return job && intake_same(wanted, service_spec(service, job)) ? spec_hold(job->spec) : NULL;
}

static bool submitted_before(struct service *service, const struct spec *spec, const char *key)
{
    return *key && cluster_job_by_key(service_cluster(service), spec->tenant, key);
}

void call_submit_job(struct service *service, struct service_call *call,
                     const struct service_request *request)
{
    const Muster__SubmitJobRequest *message = (const void *)request->message;
    struct error err = {0};
    struct spec *spec = NULL;
    struct job *sizes = NULL;
    const char *key = request->idempotency_key ? request->idempotency_key : "";
    Muster__JobSpec wanted = message->spec ? *message->spec : (Muster__JobSpec){0};
    if (!message->spec)
        error_set(&err, E_INVALID_ARGUMENT, "spec: missing");
    else if (strlen(key) >= sizeof(sizes->idempotency_key))
        error_set(&err, E_INVALID_ARGUMENT, "the idempotency key has more than %zu bytes",
                  sizeof(sizes->idempotency_key) - 1);
    else if (!service_choose_tenant(call, &wanted, &err) &&
             !(spec = accepted_before(service, &wanted, key)))
        (void)intake_spec(&wanted, &spec, &err);
    if (!spec) {
        service_fail(call, &err);
        return;
    }
    service_trace(call, NULL, spec->name);
    if (!submitted_before(service, spec, key) &&
        (quota_allows_job(call, spec, &err) || service_check_secrets(service, &wanted, &err))) {
        spec_release(spec);
        service_fail(call, &err);
        return;
    }
    uint8_t secret[SECRET_BYTES];
    struct env *env = service->options.env;
    env->rng.fill(env->rng.self, secret, sizeof(secret));
    struct event event = {
        .kind = EVENT_JOB_SUBMIT,
        .request = call->id,
        .job_submit = {.spec = spec,
                       .idempotency_key = key,
                       .secret = secret,
                       .user = call->caller ? call->caller->name : NULL},
    };
    service->options.host.step(service->options.host.self, &event);
    spec_release(spec);
}

void call_cancel_job(struct service *service, struct service_call *call,
                     const struct service_request *request)
{
    const Muster__CancelJobRequest *message = (const void *)request->message;
    struct error err = {0};
    service_trace(call, message->id, message->reason);
    const struct job *job = service_find_job(call, message->id, &err);
    if (!job) {
        service_fail(call, &err);
        return;
    }
    service_trace(call, job->id, message->reason);
    struct event event = {
        .kind = EVENT_JOB_CANCEL,
        .request = call->id,
        .job_cancel = {.id = job->id,
                       .reason = message->reason,
                       .user = call->caller ? call->caller->name : NULL},
    };
    service->options.host.step(service->options.host.self, &event);
}

void call_scale_job(struct service *service, struct service_call *call,
                    const struct service_request *request)
{
    const Muster__ScaleJobRequest *message = (const void *)request->message;
    struct error err = {0};
    char detail[256];
    uint32_t max = message->max ? message->max : message->min;
    (void)str_printf(detail, sizeof(detail), "%u..%u nodes%s%s", message->min, max,
                     *message->reason ? ": " : "", message->reason);
    service_trace(call, message->id, detail);
    const struct job *job = service_find_job(call, message->id, &err);
    if (job && (message->min > SPEC_NODES_MAX || max > SPEC_NODES_MAX)) {
        error_set(&err, E_INVALID_ARGUMENT, "at most %d nodes", SPEC_NODES_MAX);
        error_field(&err, "max");
    }
    if (err.code) {
        service_fail(call, &err);
        return;
    }
    service_trace(call, job->id, detail);
    struct event event = {
        .kind = EVENT_JOB_SCALE,
        .request = call->id,
        .job_scale = {.id = job->id,
                      .nodes_min = (int)message->min,
                      .nodes_max = (int)max,
                      .reason = message->reason},
    };
    service->options.host.step(service->options.host.self, &event);
}

void call_take_stacks(struct service *service, struct service_call *call,
                      const struct service_request *request)
{
    const Muster__TakeStacksRequest *message = (const void *)request->message;
    struct error err = {0};
    service_trace(call, message->id, "");
    const struct job *job = service_find_job(call, message->id, &err);
    if (!job) {
        service_fail(call, &err);
        return;
    }
    struct event event = {.kind = EVENT_JOB_STACKS, .request = call->id, .job_stacks = job->id};
    service->options.host.step(service->options.host.self, &event);
}

void done_job(struct service *service, struct service_call *call, const struct action *action)
{
    const struct job *job = cluster_job(service_cluster(service), action->job);
    insist(job);
    answer_job(call, job);
}

void call_get_job(struct service *service, struct service_call *call, bool last_chance)
{
    (void)service, (void)last_chance;
    const Muster__GetJobRequest *message = (const void *)call->request;
    struct error err = {0};
    const struct job *job = service_find_job(call, message->id, &err);
    if (job)
        answer_job(call, job);
    else
        service_fail(call, &err);
}

void call_watch_job(struct service *service, struct service_call *call, bool last_chance)
{
    (void)service;
    const Muster__WatchJobRequest *message = (const void *)call->request;
    struct error err = {0};
    const struct job *job = service_find_job(call, message->id, &err);
    if (!job) {
        service_fail(call, &err);
        return;
    }
    /* Any other version, not only a higher one: a restart may have lost steps that were never
     * stored. */
    if (job->version != message->version || last_chance) {
        answer_job(call, job);
        return;
    }
    service_wait(call, WAIT_JOB, job->id, INT64_MAX);
}

static bool state_known(const char *state)
{
    if (!*state || strcmp(state, "active") == 0 || strcmp(state, "stalled") == 0)
        return true;
#define X(upper, lower)                                                                            \
    if (strcmp(state, #lower) == 0)                                                                \
        return true;
    JOB_STATES(X)
#undef X
    return false;
}

static bool is_listed(const struct job *job, const Muster__ListJobsRequest *message)
{
    if (*message->tenant && strcmp(message->tenant, job->spec->tenant) != 0)
        return false;
    if (!*message->state)
        return true;
    if (strcmp(message->state, "active") == 0)
        return !job_state_ended(job->state);
    if (strcmp(message->state, "stalled") == 0)
        return job->stalled_wall_ms;
    return strcmp(message->state, job_state_name(job->state)) == 0;
}

/* The newest job older than the cursor's; without a cursor the newest of all. */
static int list_start(const struct cluster *cluster, const char *cursor, const struct job **ret,
                      struct error *err)
{
    const struct job *job = cluster_last_job(cluster);
    if (*cursor) {
        int64_t below;
        int rc = parse_i64(cursor, 1, INT64_MAX, &below, err);
        if (rc) {
            error_field(err, "cursor");
            return error_wrap(err, "cursor");
        }
        while (job && job->sequence >= (uint64_t)below)
            job = cluster_prev_job(cluster, job);
    }
    *ret = job;
    return 0;
}

static bool list_goes_on(const struct job *last, struct arena *arena, Muster__ListJobsAnswer *ret)
{
    ret->next_cursor = arena_printf(arena, "%llu", (unsigned long long)last->sequence);
    return ret->next_cursor;
}

/* Stops before its limit if specs are large: otherwise one tenant's could make the list of all
 * tenants too large for an answer. */
static bool list_page(struct service_call *call, const struct job *job, struct arena *arena,
                      Muster__ListJobsAnswer *ret)
{
    struct service *service = call->service;
    const Muster__ListJobsRequest *message = (const void *)call->request;
    uint32_t limit = message->limit ? message->limit : LIST_JOBS_DEFAULT;
    limit = limit > LIST_JOBS_MAX ? LIST_JOBS_MAX : limit;
    ret->jobs = arena_pointers(arena, limit);
    const struct job *last = NULL;
    size_t size = 0;
    for (; ret->jobs && job; job = cluster_prev_job(service_cluster(service), job)) {
        if (!scope_sees_job(call, job) || !is_listed(job, message))
            continue;
        if (ret->n_jobs == limit)
            return list_goes_on(last, arena, ret);
        Muster__Job *one = service_show_job(service, arena, job, false);
        if (!one || !scope_job(call, arena, one))
            return false;
        size += protobuf_c_message_get_packed_size(&one->base);
        if (last && size > WIRE_LIST_MAX_BYTES)
            return list_goes_on(last, arena, ret);
        ret->jobs[ret->n_jobs++] = one;
        last = job;
    }
    return ret->jobs;
}

void call_list_jobs(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const Muster__ListJobsRequest *message = (const void *)call->request;
    Muster__ListJobsAnswer answer = MUSTER__LIST_JOBS_ANSWER__INIT;
    struct error err = {0};
    const struct job *job = NULL;
    if (!state_known(message->state)) {
        error_set(&err, E_INVALID_ARGUMENT, "unknown state '%.40s'", message->state);
        error_field(&err, "state");
        error_hint(&err, "queued, starting, running, reforming, restarting, preempting, stopping, "
                         "succeeded, failed, cancelled, active, or stalled");
    } else {
        (void)list_start(service_cluster(service), message->cursor, &job, &err);
    }
    if (err.code) {
        service_fail(call, &err);
        return;
    }
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    answer.changes_refused = service_changes_refused(service, &err);
    if (list_page(call, job, &arena, &answer))
        service_answer(call, &answer.base);
    else
        fail_too_large(call);
    arena_fini(&arena);
}

struct event_list {
    struct service_call *call;
    struct arena *arena;
    Muster__Event **events;
    size_t count;
    bool failed;
};

static void add_event(void *arg, const struct store_event *event)
{
    struct event_list *list = arg;
    Muster__Event *message = wire_event(list->arena, event);
    if (message && scope_reason(list->call, list->arena, message->reason))
        list->events[list->count++] = message;
    else
        list->failed = true;
}

static bool why_history(struct service_call *call, const struct job *job, struct arena *arena,
                        Muster__WhyJobAnswer *ret)
{
    struct event_list list = {.call = call, .arena = arena};
    list.events = arena_pointers(arena, WHY_EVENTS);
    struct store_events_query query = {.job = job->id, .limit = WHY_EVENTS, .newest = true};
    struct store *store = call->service->options.store;
    if (!list.events || store->verbs->list_events(store, &query, add_event, &list, NULL) < 0)
        return false;
    ret->history = list.events;
    ret->n_history = list.count;
    return !list.failed;
}

/* 1 if the job stays as it is because no change can be stored, else 0. */
static int why_refused(const struct service *service, const struct job *job, struct reason *ret)
{
    const struct service_host *host = &service->options.host;
    struct error err = {0};
    if (job_state_ended(job->state) || host->writable(host->self, &err))
        return 0;
    reason_set(ret, REASON_CHANGES_REFUSED, "%s", err.text);
    reason_hint(ret, "%s", err.hint);
    return 1;
}

static bool why_reasons(struct service_call *call, const struct job *job, struct arena *arena,
                        Muster__WhyJobAnswer *ret)
{
    struct reason *reasons = arena_array(arena, WHY_REASONS_MAX, sizeof(*reasons));
    ret->reasons = arena_pointers(arena, WHY_REASONS_MAX);
    if (!reasons || !ret->reasons)
        return false;
    int count = why_refused(call->service, job, &reasons[0]);
    count +=
        core_why(service_cluster(call->service), job, reasons + count, WHY_REASONS_MAX - count);
    if (count < WHY_REASONS_MAX)
        count += rank_pace_explain(call->service->figures, job, &reasons[count]);
    for (int i = 0; i < count; i++) {
        ret->reasons[ret->n_reasons] = wire_reason(arena, &reasons[i]);
        if (!ret->reasons[ret->n_reasons] ||
            !scope_reason(call, arena, ret->reasons[ret->n_reasons]))
            return false;
        ret->n_reasons++;
    }
    const char *text = count > 0 ? ret->reasons[0]->text : ret->job->reason->text;
    ret->summary = arena_printf(arena, "%s is %s%s%s", job->spec->name, job_state_name(job->state),
                                *text ? ": " : "", text);
    return ret->summary;
}

void call_why_job(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const Muster__GetJobRequest *message = (const void *)call->request;
    struct error err = {0};
    const struct job *job = service_find_job(call, message->id, &err);
    if (!job) {
        service_fail(call, &err);
        return;
    }
    Muster__WhyJobAnswer answer = MUSTER__WHY_JOB_ANSWER__INIT;
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    answer.job = service_show_job(service, &arena, job, false);
    if (answer.job && scope_job(call, &arena, answer.job) &&
        why_reasons(call, job, &arena, &answer) && why_history(call, job, &arena, &answer))
        service_answer(call, &answer.base);
    else
        fail_too_large(call);
    arena_fini(&arena);
}

void call_list_checkpoints(struct service *service, struct service_call *call, bool last_chance)
{
    (void)service, (void)last_chance;
    const Muster__GetJobRequest *message = (const void *)call->request;
    struct error err = {0};
    const struct job *job = service_find_job(call, message->id, &err);
    if (!job) {
        service_fail(call, &err);
        return;
    }
    Muster__ListCheckpointsAnswer answer = MUSTER__LIST_CHECKPOINTS_ANSWER__INIT;
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    answer.checkpoints = arena_pointers(&arena, (size_t)job->checkpoints_count);
    bool whole = answer.checkpoints;
    for (int i = 0; whole && i < job->checkpoints_count; i++) {
        if (job_checkpoint_spare(job, i))
            continue; /* its files are being removed */
        Muster__Checkpoint *one = wire_checkpoint(&arena, &job->checkpoints[i]);
        answer.checkpoints[answer.n_checkpoints++] = one;
        whole = one;
    }
    if (whole)
        service_answer(call, &answer.base);
    else
        fail_too_large(call);
    arena_fini(&arena);
}
