#include "coordinator/rehearsal/rehearsal.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/heap.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "coordinator/core/step.h"
#include "coordinator/model/cluster_pass.h"
#include "coordinator/model/cluster_timers.h"
#include "coordinator/model/tenant.h"
#include "coordinator/rehearsal/figures.h"
#include "coordinator/rehearsal/sim_agent.h"

enum {
    BEGIN_MS = 1000000, /* of the monotonic clock */
    PORTS = 64,
    PROGRESS_EVERY = 1024,
};

enum due_kind { DUE_SUBMIT, DUE_FOLLOW, DUE_FINISH };

struct due { /* something that the simulation does at a time */
    struct heap_node node;
    enum due_kind kind;
    int index;      /* of the job or node */
    uint64_t stamp; /* of FINISH: invalid once the job has changed its pace */
};

struct run { /* a job during the rehearsal */
    uint64_t stamp;
    double done_ms; /* completed work, in milliseconds of one node */
    double pace;    /* nodes that train */
    int64_t since_ms;
    bool placed;
    int nodes, slots_used;
    char id[JOB_ID_MAX + 1];
};

struct simulation {
    struct rehearsal *input;
    struct cluster *cluster;
    struct actions actions;
    struct sim_agent *nodes;
    struct strmap nodes_by_name; /* -> sim_agent */
    struct run *runs;
    int *job_of; /* by sequence */
    int jobs_known, submitting, ended;
    struct heap queue;
    uint64_t sequence, request, events;
    int64_t now_ms, busy_slot_ms;
    struct worker_report *reports;
    int reports_capacity;
    struct error *err;
    int rc;
};

static void schedule_due(struct simulation *sim, int64_t at_ms, enum due_kind kind, int index,
                         uint64_t stamp)
{
    struct due *due = calloc(1, sizeof(*due));
    insist(due);
    due->node.key = at_ms;
    due->node.sequence = ++sim->sequence;
    due->kind = kind;
    due->index = index;
    due->stamp = stamp;
    insist(!heap_push(&sim->queue, &due->node));
}

/* Jobs */

static int index_of(const struct simulation *sim, const char *id)
{
    const struct job *job = cluster_job(sim->cluster, id);
    return job && job->sequence <= (uint64_t)sim->jobs_known ? sim->job_of[job->sequence] : -1;
}

static int slots_of(const struct job *job)
{
    int slots = 0;
    for (int i = 0; i < job->workers_count; i++)
        slots += job->workers[i].state != WORKER_EXITED ? job->spec->resources.slots : 0;
    return slots;
}

static void charge_use(struct simulation *sim, struct run *run, struct rehearsal_job *job)
{
    int64_t passed_ms = sim->now_ms - run->since_ms;
    run->done_ms += run->pace * (double)passed_ms;
    run->since_ms = sim->now_ms;
    sim->busy_slot_ms += passed_ms * run->slots_used;
    for (int i = 0; i < sim->input->tenants_count && passed_ms && run->slots_used; i++)
        if (strcmp(sim->input->tenants[i].name, job->tenant) == 0)
            sim->input->tenants[i].slot_ms += passed_ms * run->slots_used;
}

static void record_end(struct simulation *sim, struct rehearsal_job *mine, enum job_state state)
{
    if (mine->end != REHEARSAL_OPEN)
        return;
    mine->end = state == JOB_SUCCEEDED ? REHEARSAL_DONE : REHEARSAL_FAILED;
    mine->end_ms = sim->now_ms - BEGIN_MS;
    sim->ended++;
}

/* It may have been placed, have grown, or have stopped: update its pace. */
static void update_pace(struct simulation *sim, const char *id)
{
    const struct job *job = cluster_job(sim->cluster, id);
    int index = job ? index_of(sim, id) : -1;
    if (index < 0)
        return;
    struct run *run = &sim->runs[index];
    struct rehearsal_job *mine = &sim->input->jobs[index];
    charge_use(sim, run, mine);
    bool trains = job->state == JOB_RUNNING && job->current.joined && !job->current.broken;
    double work_ms = (double)mine->duration_ms * mine->nodes_max;
    if (!run->placed && job->state != JOB_QUEUED) {
        run->placed = true;
        mine->start_ms = sim->now_ms - BEGIN_MS;
    }
    if (trains && run->nodes && job->current.nodes != run->nodes)
        mine->resizes++;
    if (trains)
        run->nodes = job->current.nodes;
    run->pace = trains ? job->current.nodes : 0;
    run->slots_used = slots_of(job);
    run->stamp++;
    if (job_state_ended(job->state))
        record_end(sim, mine, job->state);
    else if (trains)
        schedule_due(sim, sim->now_ms + (int64_t)((work_ms - run->done_ms) / run->pace + 0.999999),
                     DUE_FINISH, index, run->stamp);
}

static void count_preemption(struct simulation *sim, const struct record *record)
{
    int index = record->job[0] ? index_of(sim, record->job) : -1;
    if (index >= 0 && strcmp(record->to, job_state_name(JOB_PREEMPTING)) == 0)
        sim->input->jobs[index].preemptions++;
}

static void record_answer(struct simulation *sim, const struct action *action)
{
    if (sim->submitting < 0)
        return;
    struct rehearsal_job *mine = &sim->input->jobs[sim->submitting];
    if (action->error) {
        mine->end = REHEARSAL_REFUSED;
        mine->end_ms = sim->now_ms - BEGIN_MS;
        sim->ended++;
        (void)str_printf(mine->refusal, sizeof(mine->refusal), "%.150s", action->error->text);
        return;
    }
    const struct job *job = cluster_job(sim->cluster, action->job);
    insist(job && job->sequence == (uint64_t)sim->jobs_known + 1);
    sim->job_of[++sim->jobs_known] = sim->submitting;
    sim->runs[sim->submitting].since_ms = sim->now_ms;
    (void)str_copy(sim->runs[sim->submitting].id, sizeof(job->id), job->id);
}

/* Stepping */

static void follow_soon(struct simulation *sim, struct sim_agent *node)
{
    if (node->dirty)
        return;
    node->dirty = true;
    schedule_due(sim, sim->now_ms, DUE_FOLLOW, (int)(node - sim->nodes), 0);
}

/* Simulated agents are never silent: there is no lease, so no heartbeats are simulated through
 * months. */
static void disarm_lease(struct simulation *sim, const char *name)
{
    struct node *node = cluster_node(sim->cluster, name);
    if (node)
        cluster_wake_node(sim->cluster, node, INT64_MAX);
}

static void perform_action(struct simulation *sim, const struct action *action)
{
    switch (action->kind) {
    case ACTION_RECORD:
        count_preemption(sim, action->record);
        break;
    case ACTION_ANSWER:
        record_answer(sim, action);
        break;
    case ACTION_NODE_CHANGED:
        follow_soon(sim, strmap_get(&sim->nodes_by_name, action->node));
        break;
    case ACTION_JOB_CHANGED:
        update_pace(sim, action->job);
        break;
    case ACTION_STORE_NODE:
        disarm_lease(sim, action->node);
        break;
    case ACTION_STORE_JOB:
    case ACTION_FORGET_NODE:
    case ACTION_WAKE_AT:
        break;
    }
}

static void send_event(struct simulation *sim, struct event *event)
{
    event->now_ms = event->wall_ms = sim->now_ms;
    event->pass_later = event->kind != EVENT_TICK && event->kind != EVENT_PASS;
    sim->events++;
    coordinator_step(sim->cluster, event, &sim->actions);
    for (int pass = 0; pass < 2; pass++) /* answers first: they name the job of the other actions */
        for (int i = 0; i < sim->actions.count; i++)
            if ((sim->actions.items[i].kind == ACTION_ANSWER) == (pass == 0))
                perform_action(sim, &sim->actions.items[i]);
    actions_clear(&sim->actions);
}

static void send_report(struct simulation *sim, struct sim_agent *node)
{
    if (node->count > sim->reports_capacity) {
        sim->reports_capacity = node->count * 2;
        sim->reports = realloc(sim->reports, sizeof(*sim->reports) * (size_t)sim->reports_capacity);
        insist(sim->reports);
    }
    sim_agent_report(node, sim->reports);
    struct event event = {.kind = EVENT_NODE_REPORT};
    event.node_report.node = node->name;
    event.node_report.incarnation = 1;
    event.node_report.sequence = ++node->sequence;
    event.node_report.workers = sim->reports;
    event.node_report.workers_count = node->count;
    send_event(sim, &event);
    disarm_lease(sim, node->name);
}

static void follow_assignments(struct simulation *sim, struct sim_agent *node)
{
    node->dirty = false;
    int64_t next_ms = sim_agent_follow(node, sim->cluster, sim->now_ms, sim->input->start_ms);
    send_report(sim, node);
    if (next_ms != INT64_MAX)
        schedule_due(sim, next_ms, DUE_FOLLOW, (int)(node - sim->nodes), 0);
}

/* Nodes with its workers, each once, in order. */
static void nodes_of(struct simulation *sim, const struct job *job, struct map *ret)
{
    for (int i = 0; i < job->workers_count; i++) {
        struct sim_agent *node = job->workers[i].state != WORKER_EXITED
                                     ? strmap_get(&sim->nodes_by_name, job->workers[i].node)
                                     : NULL;
        if (node)
            insist(!map_set(ret, (uint64_t)(node - sim->nodes), node, NULL));
    }
}

static void finish_job(struct simulation *sim, int index, uint64_t stamp)
{
    const char *id = sim->runs[index].id;
    const struct job *job = cluster_job(sim->cluster, id);
    struct map nodes = {0};
    if (stamp != sim->runs[index].stamp || !job)
        return;
    nodes_of(sim, job, &nodes);
    for (struct map_entry *e = map_first(&nodes); e; e = map_next(e)) {
        sim_agent_finish(e->value, id, sim->now_ms);
        send_report(sim, e->value);
    }
    map_fini(&nodes);
}

static void submit_job(struct simulation *sim, int index)
{
    static const uint8_t secret[SECRET_BYTES] = {1};
    static const char *const command[] = {"rehearsed"};
    const struct rehearsal_job *mine = &sim->input->jobs[index];
    char priority[16], runtime[32] = "", json[16];
    (void)str_printf(priority, sizeof(priority), "%d", mine->priority);
    (void)str_printf(json, sizeof(json), "{\"n\":%d}", index);
    if (mine->max_runtime_ms)
        (void)str_printf(runtime, sizeof(runtime), "%lldms", (long long)mine->max_runtime_ms);
    struct spec_input input = {.json = json,
                               .name = mine->name,
                               .tenant = mine->tenant,
                               .command = command,
                               .command_count = 1,
                               .nodes_min = (uint32_t)mine->nodes_min,
                               .nodes_max = (uint32_t)mine->nodes_max,
                               .workers_per_node = (uint32_t)mine->workers_per_node,
                               .slots = (uint32_t)mine->slots,
                               .cpus = 0.001,
                               .priority = priority,
                               .max_runtime = runtime,
                               .topology = mine->topology};
    struct event event = {.kind = EVENT_JOB_SUBMIT, .request = ++sim->request};
    event.job_submit.idempotency_key = "";
    event.job_submit.secret = secret;
    if (spec_build(&input, &event.job_submit.spec, sim->err)) {
        sim->rc = error_wrap(sim->err, "job '%s'", mine->name);
        return;
    }
    sim->submitting = index;
    send_event(sim, &event);
    sim->submitting = -1;
    spec_release(event.job_submit.spec);
}

/* Setting up */

static void add_node(struct simulation *sim, int index)
{
    const struct rehearsal_node *mine = &sim->input->nodes[index];
    struct node *facts = calloc(1, sizeof(*facts));
    struct event event = {.kind = EVENT_NODE_REGISTER};
    insist(facts);
    (void)str_copy(sim->nodes[index].name, sizeof(sim->nodes[index].name), mine->name);
    insist(!strmap_set(&sim->nodes_by_name, mine->name, &sim->nodes[index], NULL));
    (void)str_copy(facts->name, sizeof(facts->name), mine->name);
    (void)str_copy(facts->address, sizeof(facts->address), mine->name);
    facts->incarnation = 1;
    facts->slots = mine->slots;
    facts->cpus_milli = mine->slots * 1000;
    facts->port_first = 20000;
    facts->port_last = 20000 + NODE_SLOTS_MAX + PORTS;
    if (mine->label[0]) {
        (void)str_copy(facts->labels[0].key, sizeof(facts->labels[0].key), mine->label);
        (void)str_copy(facts->labels[0].value, sizeof(facts->labels[0].value), mine->label_value);
        facts->labels_count = 1;
    }
    event.node_register.facts = facts;
    send_event(sim, &event);
    disarm_lease(sim, mine->name);
    if (!cluster_node(sim->cluster, mine->name))
        sim->rc = error_set(sim->err, E_INVALID_ARGUMENT, "'%s' with %d slots is no node",
                            mine->name, mine->slots);
    free(facts);
}

static void add_tenant(struct simulation *sim, const struct rehearsal_tenant *mine)
{
    struct tenant facts = {.weight = mine->weight,
                           .guaranteed_slots = mine->guaranteed_slots,
                           .limit_slots = mine->limit_slots};
    (void)str_copy(facts.name, sizeof(facts.name), mine->name);
    if (!sim->rc && cluster_set_tenant(sim->cluster, &facts, sim->err))
        sim->rc = error_wrap(sim->err, "tenant '%s'", mine->name);
}

static int by_submission(const void *a, const void *b)
{
    const struct rehearsal_job *x = a, *y = b;
    if (x->submit_ms != y->submit_ms)
        return x->submit_ms < y->submit_ms ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void sim_init(struct simulation *sim)
{
    struct rehearsal *input = sim->input;
    sim->now_ms = BEGIN_MS;
    sim->submitting = -1;
    sim->cluster = cluster_new(1);
    actions_init(&sim->actions);
    sim->nodes = calloc((size_t)input->nodes_count + 1, sizeof(*sim->nodes));
    sim->runs = calloc((size_t)input->jobs_count + 1, sizeof(*sim->runs));
    sim->job_of = calloc((size_t)input->jobs_count + 2, sizeof(*sim->job_of));
    insist(sim->cluster && sim->nodes && sim->runs && sim->job_of);
    qsort(input->jobs, (size_t)input->jobs_count, sizeof(*input->jobs), by_submission);
    for (int i = 0; i < input->tenants_count; i++)
        add_tenant(sim, &input->tenants[i]);
    for (int i = 0; i < input->nodes_count && !sim->rc; i++)
        add_node(sim, i);
    for (int i = 0; i < input->jobs_count; i++)
        schedule_due(sim, BEGIN_MS + input->jobs[i].submit_ms, DUE_SUBMIT, i, 0);
}

static void run_due(struct simulation *sim, struct due *due)
{
    switch (due->kind) {
    case DUE_SUBMIT:
        submit_job(sim, due->index);
        break;
    case DUE_FOLLOW:
        follow_assignments(sim, &sim->nodes[due->index]);
        break;
    case DUE_FINISH:
        finish_job(sim, due->index, due->stamp);
        break;
    }
}

/* The next event, which may be the coordinator's timer. False: there is none. */
static bool advance(struct simulation *sim)
{
    const struct heap_node *first = heap_peek(&sim->queue);
    int64_t wake_ms = core_wake_at(sim->cluster);
    if (cluster_wants_pass(sim->cluster) && !(first && first->key <= sim->now_ms)) {
        send_event(sim, &(struct event){.kind = EVENT_PASS});
        return true;
    }
    if (first && first->key <= wake_ms) {
        struct due *due = heap_entry(heap_pop(&sim->queue), struct due, node);
        sim->now_ms = due->node.key > sim->now_ms ? due->node.key : sim->now_ms;
        run_due(sim, due);
        free(due);
        return true;
    }
    if (wake_ms == INT64_MAX)
        return false;
    sim->now_ms = wake_ms > sim->now_ms ? wake_ms : sim->now_ms;
    send_event(sim, &(struct event){.kind = EVENT_TICK});
    return true;
}

static void run_until_done(struct simulation *sim)
{
    const struct rehearsal *input = sim->input;
    while (!sim->rc && sim->ended < input->jobs_count && advance(sim)) {
        if (sim->events > REHEARSAL_EVENTS_MAX)
            sim->rc = error_set(sim->err, E_RESOURCE_EXHAUSTED, "more than %d events",
                                REHEARSAL_EVENTS_MAX);
        if (input->progress && sim->events % PROGRESS_EVERY == 0)
            input->progress(input->arg, sim->ended, input->jobs_count);
    }
    if (input->progress)
        input->progress(input->arg, sim->ended, input->jobs_count);
}

static void sim_fini(struct simulation *sim)
{
    for (struct heap_node *node; (node = heap_pop(&sim->queue));)
        free(heap_entry(node, struct due, node));
    for (int i = 0; i < sim->input->nodes_count; i++)
        sim_agent_fini(&sim->nodes[i]);
    heap_fini(&sim->queue);
    strmap_fini(&sim->nodes_by_name);
    actions_fini(&sim->actions);
    cluster_free(sim->cluster);
    free(sim->nodes);
    free(sim->runs);
    free(sim->job_of);
    free(sim->reports);
}

static int check_time(const char *what, int64_t ms, struct error *err)
{
    if (ms >= 0 && ms <= REHEARSAL_TIME_MAX_MS)
        return 0;
    return error_set(err, E_INVALID_ARGUMENT, "%s is below 0 or beyond 100 years", what);
}

static int check_times(const struct rehearsal *rehearsal, struct error *err)
{
    int rc = check_time("start", rehearsal->start_ms, err);
    for (int i = 0; i < rehearsal->jobs_count && !rc; i++) {
        const struct rehearsal_job *job = &rehearsal->jobs[i];
        if (check_time("its submission", job->submit_ms, err) ||
            check_time("its duration", job->duration_ms, err) ||
            check_time("its max_runtime", job->max_runtime_ms, err))
            rc = error_wrap(err, "job '%s'", job->name);
    }
    return rc;
}

int rehearsal_run(struct rehearsal *rehearsal, struct rehearsal_figures *ret, struct error *err)
{
    struct simulation sim = {.input = rehearsal, .err = err};
    if (rehearsal->nodes_count > REHEARSAL_NODES_MAX || rehearsal->jobs_count > REHEARSAL_JOBS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "more than %d nodes or %d jobs",
                         REHEARSAL_NODES_MAX, REHEARSAL_JOBS_MAX);
    if (check_times(rehearsal, err))
        return E_INVALID_ARGUMENT;
    sim_init(&sim);
    run_until_done(&sim);
    if (!sim.rc)
        figures_compute(rehearsal, sim.busy_slot_ms, ret);
    sim_fini(&sim);
    return sim.rc;
}
