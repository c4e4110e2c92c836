#include "coordinator/rehearsal/rehearsal.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/heap.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "coordinator/core/step.h"
#include "coordinator/rehearsal/figures.h"
#include "coordinator/rehearsal/stand_in.h"

enum {
    BEGIN_MS = 1000000, /* of the monotonic clock */
    PORTS = 64,
    PROGRESS_EVERY = 1024,
};

enum kind { HAPPEN_SUBMIT, HAPPEN_LOOK, HAPPEN_FINISH };

struct happening {
    struct heap_node node;
    enum kind kind;
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

struct life {
    struct rehearsal *input;
    struct cluster *cluster;
    struct actions actions;
    struct stand_in *nodes;
    struct strmap nodes_by_name; /* -> stand_in */
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

static void at(struct life *life, int64_t at_ms, enum kind kind, int index, uint64_t stamp)
{
    struct happening *happening = calloc(1, sizeof(*happening));
    insist(happening);
    happening->node.key = at_ms;
    happening->node.sequence = ++life->sequence;
    happening->kind = kind;
    happening->index = index;
    happening->stamp = stamp;
    insist(heap_push(&life->queue, &happening->node) == 0);
}

/* Jobs */

static int index_of(const struct life *life, const char *id)
{
    const struct job *job = cluster_job(life->cluster, id);
    return job && job->sequence <= (uint64_t)life->jobs_known ? life->job_of[job->sequence] : -1;
}

static int slots_of(const struct job *job)
{
    int slots = 0;
    for (int i = 0; i < job->workers_count; i++)
        slots += job->workers[i].state != WORKER_EXITED ? job->spec->resources.slots : 0;
    return slots;
}

static void charge(struct life *life, struct run *run, struct rehearsal_job *job)
{
    int64_t passed_ms = life->now_ms - run->since_ms;
    run->done_ms += run->pace * (double)passed_ms;
    run->since_ms = life->now_ms;
    life->busy_slot_ms += passed_ms * run->slots_used;
    for (int i = 0; i < life->input->tenants_count && passed_ms && run->slots_used; i++)
        if (strcmp(life->input->tenants[i].name, job->tenant) == 0)
            life->input->tenants[i].slot_ms += passed_ms * run->slots_used;
}

static void note_end(struct life *life, struct rehearsal_job *mine, enum job_state state)
{
    if (mine->end != REHEARSAL_OPEN)
        return;
    mine->end = state == JOB_SUCCEEDED ? REHEARSAL_DONE : REHEARSAL_FAILED;
    mine->end_ms = life->now_ms - BEGIN_MS;
    life->ended++;
}

/* It may have been placed, have grown, or have stopped: update its pace. */
static void look_at_job(struct life *life, const char *id)
{
    const struct job *job = cluster_job(life->cluster, id);
    int index = job ? index_of(life, id) : -1;
    if (index < 0)
        return;
    struct run *run = &life->runs[index];
    struct rehearsal_job *mine = &life->input->jobs[index];
    charge(life, run, mine);
    bool trains = job->state == JOB_RUNNING && job->current.joined && !job->current.broken;
    double work_ms = (double)mine->duration_ms * mine->nodes_max;
    if (!run->placed && job->state != JOB_QUEUED) {
        run->placed = true;
        mine->start_ms = life->now_ms - BEGIN_MS;
    }
    if (trains && run->nodes && job->current.nodes != run->nodes)
        mine->resizes++;
    if (trains)
        run->nodes = job->current.nodes;
    run->pace = trains ? job->current.nodes : 0;
    run->slots_used = slots_of(job);
    run->stamp++;
    if (job_state_ended(job->state))
        note_end(life, mine, job->state);
    else if (trains)
        at(life, life->now_ms + (int64_t)((work_ms - run->done_ms) / run->pace + 0.999999),
           HAPPEN_FINISH, index, run->stamp);
}

static void note_record(struct life *life, const struct record *record)
{
    int index = record->job[0] ? index_of(life, record->job) : -1;
    if (index >= 0 && strcmp(record->to, job_state_name(JOB_PREEMPTING)) == 0)
        life->input->jobs[index].preemptions++;
}

static void note_answer(struct life *life, const struct action *action)
{
    if (life->submitting < 0)
        return;
    struct rehearsal_job *mine = &life->input->jobs[life->submitting];
    if (action->error) {
        mine->end = REHEARSAL_REFUSED;
        mine->end_ms = life->now_ms - BEGIN_MS;
        life->ended++;
        (void)str_printf(mine->refusal, sizeof(mine->refusal), "%.150s", action->error->text);
        return;
    }
    const struct job *job = cluster_job(life->cluster, action->job);
    insist(job && job->sequence == (uint64_t)life->jobs_known + 1);
    life->job_of[++life->jobs_known] = life->submitting;
    life->runs[life->submitting].since_ms = life->now_ms;
    (void)str_copy(life->runs[life->submitting].id, sizeof(job->id), job->id);
}

/* Stepping */

static void look_soon(struct life *life, struct stand_in *node)
{
    if (node->dirty)
        return;
    node->dirty = true;
    at(life, life->now_ms, HAPPEN_LOOK, (int)(node - life->nodes), 0);
}

/* Stand-ins are never silent: there is no lease, so no heartbeats are simulated through months. */
static void disarm(struct life *life, const char *name)
{
    struct node *node = cluster_node(life->cluster, name);
    if (node)
        cluster_wake_node(life->cluster, node, INT64_MAX);
}

static void perform(struct life *life, const struct action *action)
{
    switch (action->kind) {
    case ACTION_RECORD:
        note_record(life, action->record);
        break;
    case ACTION_ANSWER:
        note_answer(life, action);
        break;
    case ACTION_NODE_CHANGED:
        look_soon(life, strmap_get(&life->nodes_by_name, action->node));
        break;
    case ACTION_JOB_CHANGED:
        look_at_job(life, action->job);
        break;
    case ACTION_STORE_NODE:
        disarm(life, action->node);
        break;
    case ACTION_STORE_JOB:
    case ACTION_WAKE_AT:
        break;
    }
}

static void send(struct life *life, struct event *event)
{
    event->now_ms = event->wall_ms = life->now_ms;
    event->pass_later = event->kind != EVENT_TICK && event->kind != EVENT_PASS;
    life->events++;
    coordinator_step(life->cluster, event, &life->actions);
    for (int pass = 0; pass < 2; pass++) /* answers first: they name the job of the other actions */
        for (int i = 0; i < life->actions.count; i++)
            if ((life->actions.items[i].kind == ACTION_ANSWER) == (pass == 0))
                perform(life, &life->actions.items[i]);
    actions_clear(&life->actions);
}

static void report(struct life *life, struct stand_in *node)
{
    if (node->count > life->reports_capacity) {
        life->reports_capacity = node->count * 2;
        life->reports =
            realloc(life->reports, sizeof(*life->reports) * (size_t)life->reports_capacity);
        insist(life->reports);
    }
    stand_in_report(node, life->reports);
    struct event event = {.kind = EVENT_NODE_REPORT};
    event.node_report.node = node->name;
    event.node_report.incarnation = 1;
    event.node_report.sequence = ++node->sequence;
    event.node_report.workers = life->reports;
    event.node_report.workers_count = node->count;
    send(life, &event);
    disarm(life, node->name);
}

static void look(struct life *life, struct stand_in *node)
{
    node->dirty = false;
    int64_t next_ms = stand_in_follow(node, life->cluster, life->now_ms, life->input->start_ms);
    report(life, node);
    if (next_ms != INT64_MAX)
        at(life, next_ms, HAPPEN_LOOK, (int)(node - life->nodes), 0);
}

/* Nodes with its workers, each once, in order. */
static void nodes_of(struct life *life, const struct job *job, struct map *ret)
{
    for (int i = 0; i < job->workers_count; i++) {
        struct stand_in *node = job->workers[i].state != WORKER_EXITED
                                    ? strmap_get(&life->nodes_by_name, job->workers[i].node)
                                    : NULL;
        if (node)
            insist(map_set(ret, (uint64_t)(node - life->nodes), node, NULL) == 0);
    }
}

static void finish(struct life *life, int index, uint64_t stamp)
{
    const char *id = life->runs[index].id;
    const struct job *job = cluster_job(life->cluster, id);
    struct map nodes = {0};
    if (stamp != life->runs[index].stamp || !job)
        return;
    nodes_of(life, job, &nodes);
    for (struct map_entry *e = map_first(&nodes); e; e = map_next(e)) {
        stand_in_finish(e->value, id, life->now_ms);
        report(life, e->value);
    }
    map_fini(&nodes);
}

static void submit(struct life *life, int index)
{
    static const uint8_t secret[SECRET_BYTES] = {1};
    static const char *const command[] = {"rehearsed"};
    const struct rehearsal_job *mine = &life->input->jobs[index];
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
    struct event event = {.kind = EVENT_JOB_SUBMIT, .request = ++life->request};
    event.job_submit.idempotency_key = "";
    event.job_submit.secret = secret;
    if (spec_build(&input, &event.job_submit.spec, life->err) < 0) {
        life->rc = error_wrap(life->err, "job '%s'", mine->name);
        return;
    }
    life->submitting = index;
    send(life, &event);
    life->submitting = -1;
    spec_release(event.job_submit.spec);
}

/* Setting up */

static void add_node(struct life *life, int index)
{
    const struct rehearsal_node *mine = &life->input->nodes[index];
    struct node *facts = calloc(1, sizeof(*facts));
    struct event event = {.kind = EVENT_NODE_REGISTER};
    insist(facts);
    (void)str_copy(life->nodes[index].name, sizeof(life->nodes[index].name), mine->name);
    insist(strmap_set(&life->nodes_by_name, mine->name, &life->nodes[index], NULL) == 0);
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
    send(life, &event);
    disarm(life, mine->name);
    if (!cluster_node(life->cluster, mine->name))
        life->rc = error_set(life->err, E_INVALID_ARGUMENT, "'%s' with %d slots is no node",
                             mine->name, mine->slots);
    free(facts);
}

static void add_tenant(struct life *life, const struct rehearsal_tenant *mine)
{
    struct tenant facts = {.weight = mine->weight,
                           .guaranteed_slots = mine->guaranteed_slots,
                           .limit_slots = mine->limit_slots};
    (void)str_copy(facts.name, sizeof(facts.name), mine->name);
    if (life->rc == 0 && cluster_set_tenant(life->cluster, &facts, life->err) < 0)
        life->rc = error_wrap(life->err, "tenant '%s'", mine->name);
}

static int by_submission(const void *a, const void *b)
{
    const struct rehearsal_job *x = a, *y = b;
    if (x->submit_ms != y->submit_ms)
        return x->submit_ms < y->submit_ms ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void begin(struct life *life)
{
    struct rehearsal *input = life->input;
    life->now_ms = BEGIN_MS;
    life->submitting = -1;
    life->cluster = cluster_new(1);
    actions_init(&life->actions);
    life->nodes = calloc((size_t)input->nodes_count + 1, sizeof(*life->nodes));
    life->runs = calloc((size_t)input->jobs_count + 1, sizeof(*life->runs));
    life->job_of = calloc((size_t)input->jobs_count + 2, sizeof(*life->job_of));
    insist(life->cluster && life->nodes && life->runs && life->job_of);
    qsort(input->jobs, (size_t)input->jobs_count, sizeof(*input->jobs), by_submission);
    for (int i = 0; i < input->tenants_count; i++)
        add_tenant(life, &input->tenants[i]);
    for (int i = 0; i < input->nodes_count && life->rc == 0; i++)
        add_node(life, i);
    for (int i = 0; i < input->jobs_count; i++)
        at(life, BEGIN_MS + input->jobs[i].submit_ms, HAPPEN_SUBMIT, i, 0);
}

static void happen(struct life *life, struct happening *happening)
{
    switch (happening->kind) {
    case HAPPEN_SUBMIT:
        submit(life, happening->index);
        break;
    case HAPPEN_LOOK:
        look(life, &life->nodes[happening->index]);
        break;
    case HAPPEN_FINISH:
        finish(life, happening->index, happening->stamp);
        break;
    }
}

/* The next event, which may be the coordinator's timer. False: there is none. */
static bool advance(struct life *life)
{
    const struct heap_node *first = heap_peek(&life->queue);
    int64_t wake_ms = core_wake_at(life->cluster);
    if (cluster_wants_pass(life->cluster) && !(first && first->key <= life->now_ms)) {
        send(life, &(struct event){.kind = EVENT_PASS});
        return true;
    }
    if (first && first->key <= wake_ms) {
        struct happening *happening = heap_entry(heap_pop(&life->queue), struct happening, node);
        life->now_ms = happening->node.key > life->now_ms ? happening->node.key : life->now_ms;
        happen(life, happening);
        free(happening);
        return true;
    }
    if (wake_ms == INT64_MAX)
        return false;
    life->now_ms = wake_ms > life->now_ms ? wake_ms : life->now_ms;
    send(life, &(struct event){.kind = EVENT_TICK});
    return true;
}

static void live(struct life *life)
{
    const struct rehearsal *input = life->input;
    while (life->rc == 0 && life->ended < input->jobs_count && advance(life)) {
        if (life->events > REHEARSAL_EVENTS_MAX)
            life->rc = error_set(life->err, E_RESOURCE_EXHAUSTED, "more than %d events",
                                 REHEARSAL_EVENTS_MAX);
        if (input->progress && life->events % PROGRESS_EVERY == 0)
            input->progress(input->arg, life->ended, input->jobs_count);
    }
    if (input->progress)
        input->progress(input->arg, life->ended, input->jobs_count);
}

static void fini(struct life *life)
{
    for (struct heap_node *node; (node = heap_pop(&life->queue));)
        free(heap_entry(node, struct happening, node));
    for (int i = 0; i < life->input->nodes_count; i++)
        stand_in_fini(&life->nodes[i]);
    heap_fini(&life->queue);
    strmap_fini(&life->nodes_by_name);
    actions_fini(&life->actions);
    cluster_free(life->cluster);
    free(life->nodes);
    free(life->runs);
    free(life->job_of);
    free(life->reports);
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
    for (int i = 0; i < rehearsal->jobs_count && rc == 0; i++) {
        const struct rehearsal_job *job = &rehearsal->jobs[i];
        if (check_time("its submission", job->submit_ms, err) < 0 ||
            check_time("its duration", job->duration_ms, err) < 0 ||
            check_time("its max_runtime", job->max_runtime_ms, err) < 0)
            rc = error_wrap(err, "job '%s'", job->name);
    }
    return rc;
}

int rehearsal_run(struct rehearsal *rehearsal, struct rehearsal_figures *ret, struct error *err)
{
    struct life life = {.input = rehearsal, .err = err};
    if (rehearsal->nodes_count > REHEARSAL_NODES_MAX || rehearsal->jobs_count > REHEARSAL_JOBS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "more than %d nodes or %d jobs",
                         REHEARSAL_NODES_MAX, REHEARSAL_JOBS_MAX);
    if (check_times(rehearsal, err) < 0)
        return E_INVALID_ARGUMENT;
    begin(&life);
    live(&life);
    if (life.rc == 0)
        figures_compute(rehearsal, life.busy_slot_ms, ret);
    fini(&life);
    return life.rc;
}
