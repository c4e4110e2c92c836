#include "coordinator/api_rpc/node_calls.h"

#include <string.h>

#include "common/base/limits.h"
#include "common/base/str.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/folders.h"
#include "coordinator/api_rpc/intake.h"
#include "coordinator/api_rpc/job_query.h"
#include "coordinator/api_rpc/join.h"
#include "coordinator/api_rpc/output_end.h"
#include "coordinator/api_rpc/quota.h"
#include "coordinator/api_rpc/reporter.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/service_wait.h"
#include "coordinator/core/limits.h"

enum {
    REPORT_ARENA_MAX_BYTES = 128 << 20, /* the unpacked size of the largest RPC message */
    CLOCK_AHEAD_MAX_MS = 86400000,      /* of a worker's clock; one further ahead is wrong */
};

static void step_core(struct service *service, struct event *event)
{
    service->options.host.step(service->options.host.self, event);
}

const struct node *service_reporting_node(struct service_call *call, const char *name,
                                          uint64_t incarnation, struct error *err)
{
    struct service *service = call->service;
    const struct node *node = cluster_node(service_cluster(service), name);
    if (service->options.keyed && strcmp(call->caller->name, name) != 0) {
        error_set(err, E_PERMISSION_DENIED, "this key is node '%s' and speaks for no other",
                  call->caller->name);
        return NULL;
    }
    if (!node) {
        error_set(err, E_NOT_FOUND, "unknown node '%.80s'", name);
        error_hint(err, "register first");
    } else if (node_has_fenced(node, incarnation)) {
        error_set(err, E_ABORTED, "fenced: another agent speaks for node '%s'", node->name);
        return NULL;
    } else if (node->incarnation != incarnation) { /* it registered after our backup */
        error_set(err, E_NOT_FOUND, "a new agent speaks for node '%s'", node->name);
        error_hint(err, "register first");
        return NULL;
    }
    return node;
}

uint64_t service_newest_event(const struct service *service)
{
    const struct store *store = service->options.store;
    return store->verbs->newest_event(store);
}

/* A cluster that does not know a node's workers would end them: another cluster, or this one with a
 * history older than the agent's. A restore by an administrator is intended, and so is the agent's
 * --join-again. */
static int check_belongs(const struct service *service, const Muster__RegisterNodeRequest *message,
                         struct error *err)
{
    const struct service_options *options = &service->options;
    if (message->n_workers == 0 || !*message->cluster)
        return 0;
    if (strcmp(message->cluster, service->cluster_id) != 0)
        error_set(err, E_FAILED_PRECONDITION,
                  "node %.63s belongs to cluster %.80s and has %zu workers of it; this is cluster "
                  "%s, which would end them",
                  message->name, message->cluster, message->n_workers, service->cluster_id);
    else if (message->restored_wall_ms > options->restored_wall_ms ||
             (message->restored_wall_ms == options->restored_wall_ms &&
              message->event > service_newest_event(service)))
        error_set(err, E_FAILED_PRECONDITION,
                  "node %.63s has %zu workers and knows event %llu of cluster %s; the store here "
                  "ends at event %llu: an older history, which would end them",
                  message->name, message->n_workers, (unsigned long long)message->event,
                  service->cluster_id, (unsigned long long)service_newest_event(service));
    else
        return 0;
    error_hint(err, "restore the coordinator's store; or, to join this cluster, start the agent "
                    "once with --join-again");
    return E_FAILED_PRECONDITION;
}

static void link_agent(struct service *service, const struct service_request *request,
                       const char *node, uint64_t incarnation)
{
    struct connection *connection =
        connection_get(&service->connections, request->peer, request->peer_data);
    if (connection)
        connection_link(&service->connections, connection, node, incarnation);
}

void call_register_node(struct service *service, struct service_call *call,
                        const struct service_request *request)
{
    const Muster__RegisterNodeRequest *message = (const void *)request->message;
    struct error err = {0};
    struct arena arena;
    arena_init(&arena, REPORT_ARENA_MAX_BYTES);
    struct node *facts = arena_zalloc(&arena, sizeof(*facts));
    char detail[160];
    (void)str_printf(detail, sizeof(detail), "%u slots at %.100s, %zu workers", message->slots,
                     message->address, message->n_workers);
    service_trace(call, message->name, detail);
    struct worker_report *reports = NULL;
    struct intake_workers from = {.workers = message->workers, .workers_count = message->n_workers};
    struct join join = {.caller = call->caller};
    int count = 0, rc = facts ? intake_node(message, &arena, facts, &err) : E_RESOURCE_EXHAUSTED;
    if (!rc)
        rc = check_belongs(service, message, &err);
    if (!rc)
        rc = join_check(service, &join, request->peer_key, facts, &err);
    if (!rc)
        rc = intake_reports(&from, &arena, &reports, &count, &err);
    if (rc) {
        service_fail(call, &err);
    } else {
        struct event event = {
            .kind = EVENT_NODE_REGISTER,
            .request = call->id,
            .node_register = {.facts = facts, .workers = reports, .workers_count = count},
        };
        step_core(service, &event);
        const struct node *node = cluster_node(service_cluster(service), facts->name);
        if (node && node->incarnation == facts->incarnation) {
            link_agent(service, request, facts->name, facts->incarnation);
            if (node->key[0])
                (void)access_put_node(service->access, node->key, node->name, NULL);
            join_count(call, &join, node, detail);
        }
    }
    arena_fini(&arena);
}

void done_register_node(struct service *service, struct service_call *call,
                        const struct action *action)
{
    (void)action;
    Muster__RegisterNodeAnswer answer = MUSTER__REGISTER_NODE_ANSWER__INIT;
    answer.cluster = service->cluster_id;
    answer.beat_ms = BEAT_MS;
    answer.lease_ms = LEASE_MS;
    answer.event = service_newest_event(service);
    answer.restored_wall_ms = service->options.restored_wall_ms;
    service_answer(call, &answer.base);
}

static int keep_logs(struct service *service, const Muster__NodeReport *message,
                     struct arena *arena, struct error *err)
{
    for (size_t i = 0; i < message->n_logs; i++) {
        const Muster__LogChunk *from = message->logs[i];
        const struct job *job = cluster_job(service_cluster(service), from->job);
        uint64_t uid = from->uid & ~LOGS_STACKS_UID;
        if (!job || !service_node_had_worker(service, job, uid, message->node))
            continue;
        struct log_line *lines = arena_array(arena, from->n_lines, sizeof(*lines));
        if (!lines)
            return error_set(err, E_RESOURCE_EXHAUSTED, "logs: the report is too large");
        for (size_t j = 0; j < from->n_lines; j++)
            lines[j] = (struct log_line){
                .wall_ms = from->lines[j]->wall_ms,
                .rank = from->lines[j]->rank,
                .generation = from->lines[j]->generation,
                .is_stderr = from->lines[j]->is_stderr,
                .text = from->lines[j]->text,
            };
        struct logs_chunk chunk = {.uid = from->uid,
                                   .offset = from->offset,
                                   .lines = lines,
                                   .count = (int)from->n_lines,
                                   .last = from->last,
                                   .max_bytes = quota_output_of(service, job)};
        int rc = logs_append(service->logs, job->id, &chunk, err);
        if (rc)
            return rc;
        kept_set(service->kept, job->spec->tenant, job->id, logs_size(service->logs, job->id), -1);
        service_note_late_output(service, job);
        service_wake(service, WAIT_LOGS, job->id);
    }
    return 0;
}

static int keep_samples(struct service *service, const struct job *job,
                        const struct metric_sample *samples, int count, struct error *err)
{
    struct metrics_job of = quota_metrics_of(service, job);
    int rc = metrics_append(service->metrics, &of, samples, count, err);
    if (!rc)
        kept_set(service->kept, job->spec->tenant, job->id, -1,
                 metrics_size(service->metrics, job->id));
    return rc;
}

static int keep_metrics(struct service *service, const Muster__NodeReport *message,
                        struct arena *arena, struct error *err)
{
    struct metric_sample *samples = arena_array(arena, message->n_metrics, sizeof(*samples));
    if (!samples)
        return error_set(err, E_RESOURCE_EXHAUSTED, "metrics: the report is too large");
    const int64_t now = service_wall_ms(service);
    /* Adjacent samples of a job are written together. */
    for (size_t i = 0; i < message->n_metrics;) {
        const char *job = message->metrics[i]->job;
        int count = 0;
        for (; i < message->n_metrics && strcmp(message->metrics[i]->job, job) == 0; i++) {
            const Muster__MetricSample *from = message->metrics[i];
            bool timed = from->wall_ms > 0 && from->wall_ms <= now + CLOCK_AHEAD_MAX_MS;
            if (from->step > STEP_MAX)
                continue;
            samples[count++] = (struct metric_sample){.name = from->name,
                                                      .generation = from->generation,
                                                      .step = from->step,
                                                      .wall_ms = timed ? from->wall_ms : now,
                                                      .value = from->value};
        }
        const struct job *known = cluster_job(service_cluster(service), job);
        if (!known || !service_node_had(service, known, message->node))
            continue;
        int rc = keep_samples(service, known, samples, count, err);
        if (rc)
            return rc;
    }
    return 0;
}

static void keep_figures(struct service *service, const Muster__NodeReport *message)
{
    size_t count = message->n_figures < RANK_FIGURES_REPORT_WORKERS_MAX
                       ? message->n_figures
                       : RANK_FIGURES_REPORT_WORKERS_MAX;
    for (size_t i = 0; i < count; i++) {
        const Muster__WorkerFigures *from = message->figures[i];
        const struct job *job = cluster_job(service_cluster(service), from->job);
        const struct worker *worker = job ? job_worker(job, from->uid) : NULL;
        if (worker && strcmp(worker->node, message->node) == 0)
            rank_figures_put(service->figures, job, from);
    }
}

void call_report(struct service *service, struct service_call *call,
                 const struct service_request *request)
{
    const Muster__NodeReport *message = (const void *)request->message;
    struct error err = {0};
    struct arena arena;
    arena_init(&arena, REPORT_ARENA_MAX_BYTES);
    struct intake_workers from = {
        .workers = message->workers,
        .workers_count = message->n_workers,
        .metrics = message->metrics,
        .metrics_count = message->n_metrics,
    };
    struct worker_report *reports = NULL;
    int count = 0;
    if (!service_reporting_node(call, message->node, message->incarnation, &err) ||
        intake_reports(&from, &arena, &reports, &count, &err)) {
        service_fail(call, &err);
        arena_fini(&arena);
        return;
    }
    link_agent(service, request, message->node, message->incarnation);
    /* A full disk must not hide the workers' events: only the acknowledgement is withheld. */
    int kept = keep_logs(service, message, &arena, &err);
    if (kept == 0)
        kept = keep_metrics(service, message, &arena, &err);
    if (kept < 0)
        log_warn(service->options.log, "output of workers was not kept",
                 log_str("node", message->node), log_str("error", err.text));
    keep_figures(service, message);
    call->sequence = kept == 0 ? message->sequence : 0;
    struct gpu_now gpus[NODE_GPUS_MAX];
    struct slot_held held[NODE_GPUS_MAX];
    struct event event = {
        .kind = EVENT_NODE_REPORT,
        .request = call->id,
        .node_report = {.node = message->node,
                        .incarnation = message->incarnation,
                        .sequence = message->sequence,
                        .workers = reports,
                        .workers_count = count,
                        .gpus = {.now = gpus,
                                 .now_count = intake_readings(message, gpus),
                                 .held = held,
                                 .held_count = intake_held(message, held)}},
    };
    event.node_report.gpus.links_count =
        intake_links(message, &arena, &event.node_report.gpus.links);
    step_core(service, &event);
    arena_fini(&arena);
}

void done_report(struct service *service, struct service_call *call, const struct action *action)
{
    (void)action;
    Muster__NodeReportAnswer answer = MUSTER__NODE_REPORT_ANSWER__INIT;
    answer.sequence = call->sequence;
    answer.event = service_newest_event(service);
    answer.restored_wall_ms = service->options.restored_wall_ms;
    service_answer(call, &answer.base);
}

void call_commit_checkpoint(struct service *service, struct service_call *call,
                            const struct service_request *request)
{
    const Muster__CommitCheckpointRequest *message = (const void *)request->message;
    struct error err = {0};
    service_trace(call, message->job, message->node);
    struct event event = {
        .kind = EVENT_CHECKPOINT,
        .request = call->id,
        .checkpoint = {.job = message->job,
                       .node = message->node,
                       .uid = message->uid,
                       .incarnation = message->incarnation,
                       .done = message->phase == MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__done},
    };
    if (message->phase == MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__unknown)
        error_set(&err, E_INVALID_ARGUMENT, "phase: neither prepare nor done");
    else if (!intake_checkpoint(message->checkpoint, &event.checkpoint.checkpoint, &err) &&
             service_reporting_node(call, message->node, message->incarnation, &err)) {
        if (!folders_allow_commit(service, message->job, message->checkpoint->path, &err))
            step_core(service, &event);
        else
            service_refuse(call, &err);
        return;
    }
    service_fail(call, &err);
}

void done_commit_checkpoint(struct service *service, struct service_call *call,
                            const struct action *action)
{
    (void)service;
    Muster__CommitCheckpointAnswer answer = MUSTER__COMMIT_CHECKPOINT_ANSWER__INIT;
    answer.prune = (char **)(uintptr_t)action->prune;
    while (action->prune && action->prune[answer.n_prune])
        answer.n_prune++;
    service_answer(call, &answer.base);
}

/* Only members of a living generation may use its board. */
static int may_use_board(struct service_call *call, const Muster__BoardRequest *message,
                         struct error *err)
{
    struct service *service = call->service;
    if (!service_reporting_node(call, message->node, message->incarnation, err))
        return err->code;
    const struct job *job = cluster_job(service_cluster(service), message->job);
    const struct group *group = NULL;
    if (job && message->generation == job->current.generation)
        group = &job->current;
    else if (job && message->generation == job->forming.generation)
        group = &job->forming;
    if (!group || group->generation == 0)
        return error_set(err, E_ABORTED, "generation is over");
    const struct worker *worker = job_worker(job, message->uid);
    if (group_rank_of(group, message->uid) < 0 || !worker ||
        strcmp(worker->node, message->node) != 0)
        return error_set(err, E_PERMISSION_DENIED, "worker %llu is no member of generation %llu",
                         (unsigned long long)message->uid, (unsigned long long)message->generation);
    return 0;
}

void call_board(struct service *service, struct service_call *call, bool last_chance)
{
    const Muster__BoardRequest *message = (const void *)call->request;
    Muster__BoardAnswer answer = MUSTER__BOARD_ANSWER__INIT;
    struct error err = {0};
    struct board_place place = {
        .job = message->job, .generation = message->generation, .key = message->key};
    struct board_value value = {.data = message->value.data, .size = message->value.len};
    int rc = may_use_board(call, message, &err);
    if (!rc)
        place.tenant = cluster_job(service_cluster(service), message->job)->spec->tenant;
    if (!rc && message->set && !board_has_room(service->board, &place, &value)) {
        rc = budget_refuse(&service->budgets, LIMIT_TENANT_BOARD_BYTES, &err);
    } else if (!rc && message->set) {
        rc = board_set(service->board, &place, &value, &err);
        if (rc == E_RESOURCE_EXHAUSTED)
            service->budgets.refused[LIMIT_BOARD_BYTES]++;
        if (!rc)
            service_wake(service, WAIT_BOARD, message->job);
        answer.found = true;
    } else if (!rc) {
        answer.found = board_get(service->board, &place, &value);
        if (answer.found) {
            answer.value.data = (uint8_t *)(uintptr_t)value.data;
            answer.value.len = value.size;
        } else if (message->wait && !last_chance) {
            service_wait(call, WAIT_BOARD, message->job, INT64_MAX);
            return;
        }
    }
    if (rc)
        service_fail(call, &err);
    else
        service_answer(call, &answer.base);
}
