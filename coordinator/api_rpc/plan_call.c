/* What-if: resolves the names in the question, and converts the scheduler's answer to a message. */
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/intake_spec.h"
#include "coordinator/api_rpc/job_query.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/stored_spec.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/plan.h"

struct question {
    struct service_call *call;
    const Muster__PlanRequest *message;
    struct what_if what_if;
    struct spec *spec; /* with a reference, or NULL */
};

static int bad_field(struct error *err, const char *field, const char *what)
{
    error_set(err, E_INVALID_ARGUMENT, "%s: %s", field, what);
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static int check_counts(const Muster__PlanRequest *message, struct error *err)
{
    const struct {
        const char *field;
        size_t count;
    } lists[] = {{"drain", message->n_drain},
                 {"without_jobs", message->n_without_jobs},
                 {"without_tenants", message->n_without_tenants},
                 {"add", message->n_add}};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (lists[i].count > WHAT_IF_MAX)
            return bad_field(err, lists[i].field, "16 at most");
    if (message->spec && *message->job)
        return bad_field(err, "job", "a plan is about this job or about a spec, not both");
    if (message->nodes && !message->spec && !*message->job)
        return bad_field(err, "nodes", "of which job?");
    return 0;
}

static const struct node *find_node(struct question *question, const char *name, const char *field,
                                    struct error *err)
{
    const struct node *node = cluster_node(service_cluster(question->call->service), name);
    if (!node) {
        error_set(err, E_NOT_FOUND, "no node is named '%.80s'", name);
        error_field(err, "%s", field);
        error_hint(err, "muster nodes lists them");
    }
    return node;
}

static int read_nodes(struct question *question, struct error *err)
{
    const Muster__PlanRequest *message = question->message;
    struct what_if *what_if = &question->what_if;
    for (size_t i = 0; i < message->n_drain; i++) {
        const struct node *node = find_node(question, message->drain[i], "drain", err);
        if (!node)
            return err->code;
        what_if->drained[what_if->drained_count++] = node;
    }
    for (size_t i = 0; i < message->n_add; i++) {
        const struct node *node = find_node(question, message->add[i]->like, "add.like", err);
        if (!node)
            return err->code;
        if (message->add[i]->count < 1 || message->add[i]->count > WHAT_IF_ADDED_MAX)
            return bad_field(err, "add.count", "1 to 512");
        what_if->added[what_if->added_count++] =
            (struct more_nodes){.like = node, .count = (int)message->add[i]->count};
    }
    return 0;
}

/* Jobs of other tenants do not exist for this caller. */
static int read_absent(struct question *question, struct error *err)
{
    const Muster__PlanRequest *message = question->message;
    struct what_if *what_if = &question->what_if;
    const char *own = scope_tenant(question->call);
    const struct cluster *cluster = service_cluster(question->call->service);
    for (size_t i = 0; i < message->n_without_jobs; i++) {
        const struct job *job = service_find_job(question->call, message->without_jobs[i], err);
        if (!job) {
            error_field(err, "without_jobs");
            return err->code;
        }
        what_if->gone[what_if->gone_count++] = job;
    }
    for (size_t i = 0; i < message->n_without_tenants; i++) {
        const char *name = message->without_tenants[i];
        const struct tenant *tenant =
            own && strcmp(own, name) != 0 ? NULL : cluster_tenant(cluster, name);
        if (!tenant) {
            error_set(err, E_NOT_FOUND, "no tenant is named '%.80s'", name);
            error_field(err, "without_tenants");
            return E_NOT_FOUND;
        }
        what_if->gone_tenants[what_if->gone_tenants_count++] = tenant;
    }
    return 0;
}

static int read_spec(struct question *question, Muster__JobSpec wanted, struct error *err)
{
    if (question->message->nodes)
        wanted.nodes = question->message->nodes;
    int rc = intake_spec(&wanted, &question->spec, err);
    question->what_if.spec = question->spec;
    return rc;
}

static int read_job(struct question *question, struct error *err)
{
    struct service *service = question->call->service;
    const struct job *job = service_find_job(question->call, question->message->job, err);
    if (!job) {
        error_field(err, "job");
        return err->code;
    }
    if (job->state != JOB_QUEUED && job->state != JOB_RESTARTING) {
        error_set(err, E_FAILED_PRECONDITION, "job %s is %s: a plan is about one that waits",
                  job->id, job_state_name(job->state));
        error_hint(err, "ask about its spec instead: muster plan SPEC");
        return E_FAILED_PRECONDITION;
    }
    question->what_if.job = job;
    return question->message->nodes ? read_spec(question, *service_spec(service, job), err) : 0;
}

static int read_question(struct question *question, struct error *err)
{
    const Muster__PlanRequest *message = question->message;
    int rc = check_counts(message, err);
    if (!rc)
        rc = read_nodes(question, err);
    if (!rc)
        rc = read_absent(question, err);
    if (!rc && *message->job)
        rc = read_job(question, err);
    if (!rc && message->spec) {
        Muster__JobSpec wanted = *message->spec;
        rc = service_choose_tenant(question->call, &wanted, err);
        if (!rc)
            rc = read_spec(question, wanted, err);
    }
    return rc;
}

/* The answer */

static bool wire_reasons(struct service_call *call, struct arena *arena,
                         const struct forecast *forecast, Muster__PlanAnswer *ret)
{
    ret->reasons = arena_pointers(arena, PLAN_REASONS_MAX);
    for (int i = 0; ret->reasons && i < forecast->reasons_count; i++) {
        Muster__Reason *one = wire_reason(arena, &forecast->reasons[i]);
        if (!one || !scope_reason(call, arena, one))
            return false;
        ret->reasons[ret->n_reasons++] = one;
    }
    return ret->reasons;
}

static bool wire_effects(struct service_call *call, struct arena *arena,
                         const struct forecast *forecast, Muster__PlanAnswer *ret)
{
    Muster__PlanAnswer__Effect *effects = arena_array(arena, PLAN_EFFECTS_MAX, sizeof(*effects));
    ret->effects = arena_pointers(arena, PLAN_EFFECTS_MAX);
    if (!effects || !ret->effects)
        return false;
    for (int i = 0; i < forecast->effects_count; i++) {
        const struct effect *from = &forecast->effects[i];
        bool seen = scope_sees_job(call, from->job);
        muster__plan_answer__effect__init(&effects[i]);
        effects[i].job = rpc_text(seen ? from->job->id : "");
        effects[i].name = rpc_text(seen ? from->job->spec->name : scope_others);
        effects[i].effect = rpc_text(effect_name(from->kind));
        effects[i].node = rpc_text(from->node ? from->node->name : "");
        effects[i].gives_way = from->gives_way;
        ret->effects[ret->n_effects++] = &effects[i];
    }
    ret->effects_left_out = (uint32_t)forecast->effects_left_out;
    return true;
}

static bool wire_nodes(struct arena *arena, const struct forecast *forecast,
                       Muster__PlanAnswer *ret)
{
    ret->nodes = arena_pointers(arena, (size_t)forecast->placement.count);
    for (int i = 0; ret->nodes && i < forecast->placement.count; i++)
        ret->nodes[ret->n_nodes++] = forecast->placement.nodes[i].name;
    return ret->nodes;
}

static const char *summary(struct arena *arena, const struct question *question,
                           const Muster__PlanAnswer *answer)
{
    const struct what_if *what_if = &question->what_if;
    const struct spec *spec = what_if->spec  ? what_if->spec
                              : what_if->job ? what_if->job->spec
                                             : NULL;
    if (!spec)
        return arena_printf(arena, "%zu job%s would notice",
                            answer->n_effects + answer->effects_left_out,
                            str_plural(answer->n_effects));
    if (answer->starts)
        return arena_printf(arena, "%s would start at once on %zu node%s", spec->name,
                            answer->n_nodes, str_plural(answer->n_nodes));
    if (answer->makes_room)
        return arena_printf(arena, "%s would start once others have made room", spec->name);
    return arena_printf(arena, "%s would wait: %s", spec->name,
                        answer->n_reasons > 0 ? answer->reasons[0]->text : "");
}

static int64_t starts_wall_ms(const struct cluster *cluster, const struct forecast *forecast)
{
    if (forecast->starts)
        return cluster_wall(cluster);
    if (!forecast->starts_at_ms)
        return 0;
    return cluster_wall(cluster) + forecast->starts_at_ms - cluster_now(cluster);
}

static void answer_forecast(struct question *question, const struct forecast *forecast)
{
    struct service_call *call = question->call;
    Muster__PlanAnswer message = MUSTER__PLAN_ANSWER__INIT;
    struct error err;
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    message.starts = forecast->starts;
    message.makes_room = forecast->waits_for_victims;
    message.starts_wall_ms = starts_wall_ms(service_cluster(call->service), forecast);
    message.ahead = (uint32_t)forecast->ahead;
    bool whole = wire_nodes(&arena, forecast, &message) &&
                 wire_reasons(call, &arena, forecast, &message) &&
                 wire_effects(call, &arena, forecast, &message);
    message.summary = whole ? rpc_text(summary(&arena, question, &message)) : NULL;
    if (message.summary) {
        service_answer(call, &message.base);
    } else {
        error_set(&err, E_RESOURCE_EXHAUSTED, "the answer is too large");
        service_fail(call, &err);
    }
    arena_fini(&arena);
}

void call_plan(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    struct question question = {.call = call, .message = (const void *)call->request};
    struct error err = {0};
    struct forecast *forecast = malloc(sizeof(*forecast));
    if (!forecast)
        error_set(&err, E_RESOURCE_EXHAUSTED, "out of memory");
    else if (!read_question(&question, &err))
        (void)scheduler_plan(service_cluster(service), &question.what_if, forecast, &err);
    if (err.code) {
        service_fail(call, &err);
    } else {
        answer_forecast(&question, forecast);
        forecast_fini(forecast);
    }
    spec_release(question.spec);
    free(forecast);
}
