#include "tests/unit/coordinator_core/story.h"

#include "coordinator/model/reason.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/invariant.h"
#include "coordinator/model/assignment.h"
#include "coordinator/model/tenant.h"

enum { WALL_OFFSET_MS = 1000000, ROUNDS_MAX = 100 };

void story_begin(struct story *story)
{
    memset(story, 0, sizeof(*story));
    story->cluster = cluster_new(1);
    story->memory = invariant_memory_new();
    story->now_ms = 1000;
    story->wall_offset_ms = WALL_OFFSET_MS;
}

void story_end(struct story *story)
{
    cluster_free(story->cluster);
    invariant_memory_free(story->memory);
}

static struct story_records *records_of(struct story *story, const char *kind)
{
    for (int i = 0; i < STORY_KINDS_MAX; i++) {
        struct story_records *records = &story->records[i];
        if (records->count == 0 || strcmp(records->newest.kind, kind) == 0)
            return records;
    }
    cr_assert_fail("no room for records of kind %s", kind);
    abort();
}

const struct story_records *story_records(struct story *story, const char *kind)
{
    return records_of(story, kind);
}

const char *story_text(struct story *story, const struct reason *reason)
{
    struct buf shown;
    buf_init(&shown, sizeof(story->text));
    reason_show(reason->text, NULL, "", &shown);
    (void)snprintf(story->text, sizeof(story->text), "%s", buf_cstr(&shown));
    buf_fini(&shown);
    return story->text;
}

static void trace(struct story *story, const struct record *record)
{
    struct story_records *records = records_of(story, record->kind);
    records->newest = *record;
    records->count++;
    size_t used = strlen(story->trace);
    if (strcmp(record->kind, "job_state") == 0)
        (void)snprintf(story->trace + used, sizeof(story->trace) - used, "%s %s %s\n", record->job,
                       record->to, record->reason.kind);
    else if (strcmp(record->kind, "node_state") == 0)
        (void)snprintf(story->trace + used, sizeof(story->trace) - used, "%s %s %s\n", record->node,
                       record->to, record->reason.kind);
}

static void note_stored(struct story *story, const char *what)
{
    size_t used = strlen(story->stored);
    (void)snprintf(story->stored + used, sizeof(story->stored) - used, "%s ", what);
}

static void perform(struct story *story, const struct action *action)
{
    switch (action->kind) {
    case ACTION_RECORD:
        trace(story, action->record);
        break;
    case ACTION_ANSWER:
        story->error = (struct error){0};
        if (action->error)
            story->error = *action->error;
        (void)str_copy(story->answered, sizeof(story->answered), action->job);
        story->repeated = action->repeated;
        story->pruned = 0;
        for (const char *const *p = action->prune; p && *p; p++)
            if (story->pruned++ == 0)
                (void)str_copy(story->pruned_first, sizeof(story->pruned_first), *p);
        break;
    case ACTION_NODE_CHANGED:
        story->versions++;
        break;
    case ACTION_STORE_JOB:
        note_stored(story, action->job);
        story->stored_ledger = story_job(story, action->job)->ledger;
        break;
    case ACTION_STORE_NODE:
    case ACTION_FORGET_NODE:
        note_stored(story, action->node);
        break;
    case ACTION_JOB_CHANGED:
    case ACTION_WAKE_AT:
        break;
    }
}

void story_send(struct story *story, const struct event *event)
{
    struct actions actions;
    struct event timed = *event;
    struct error err = {0};
    int answers = 0;
    timed.now_ms = story->now_ms;
    timed.pass_later = story->pass_later;
    timed.wall_ms = story->now_ms + story->wall_offset_ms;
    (void)str_copy(story->stored, sizeof(story->stored), " ");
    actions_init(&actions);
    coordinator_step(story->cluster, &timed, &actions);
    for (int i = 0; i < actions.count; i++) {
        perform(story, &actions.items[i]);
        answers += actions.items[i].kind == ACTION_ANSWER;
    }
    cr_assert_eq(answers, timed.request ? 1 : 0, "answered %d times", answers);
    actions_fini(&actions);
    cr_assert_eq(invariant_check(story->cluster, &err), 0, "%s", err.text);
    cr_assert_eq(invariant_check_since(story->memory, story->cluster, &err), 0, "%s", err.text);
}

struct story_node *story_node(struct story *story, const char *name)
{
    for (int i = 0; i < story->nodes_count; i++)
        if (strcmp(story->nodes[i].name, name) == 0)
            return &story->nodes[i];
    cr_assert_fail("no node %s", name);
    abort();
}

static void fill_reports(struct story *story, struct story_node *node, struct worker_report *ret)
{
    static char endpoints[STORY_WORKERS_MAX][48];
    static const int64_t stuck_pid = 4711;
    for (int i = 0; i < node->workers_count; i++) {
        struct story_worker *w = &node->workers[i];
        (void)snprintf(endpoints[i], sizeof(endpoints[i]), "tcp://%s:%d", node->name, i);
        ret[i] = (struct worker_report){.job = w->job,
                                        .uid = w->uid,
                                        .state = w->exited                  ? WORKER_EXITED
                                                 : w->unborn && w->stopping ? WORKER_STOPPING
                                                 : w->joined                ? WORKER_JOINED
                                                                            : WORKER_STARTING,
                                        .pid = w->unborn ? 0 : 100 + (int64_t)w->uid,
                                        .generation = w->joined,
                                        .joining = w->joining,
                                        .step = w->step,
                                        .total_steps = w->total_steps,
                                        .broken = w->broken,
                                        .endpoint = w->endpoint ? w->endpoint : endpoints[i],
                                        .aware = !story->unaware,
                                        .reports = story->reports,
                                        .lost_ranks = w->lost_ranks,
                                        .lost_ranks_count = w->lost_count,
                                        .wait = w->wait.waited_ms ? &w->wait : NULL,
                                        .stuck_pids = &stuck_pid,
                                        .stuck_count = w->stuck,
                                        .exit = w->exited ? &w->exit : NULL,
                                        .start_error = w->start_error ? w->start_error : "",
                                        .loss = NAN,
                                        .tokens_per_second = NAN};
    }
}

static int fill_links(const struct story_node *node, struct gpu ret[NODE_GPUS_MAX])
{
    memset(ret, 0, sizeof(*ret) * NODE_GPUS_MAX);
    for (int slot = 0; slot < node->slots && slot < NODE_GPUS_MAX; slot++) {
        ret[slot].index = slot;
        ret[slot].nvlinks = node->nvlinks;
        (void)str_copy(ret[slot].links, sizeof(ret->links), node->links ? node->links[slot] : "");
    }
    return node->links ? node->slots : 0;
}

void story_register(struct story *story, const char *name, bool new_incarnation)
{
    struct story_node *node = story_node(story, name);
    struct worker_report reports[STORY_WORKERS_MAX];
    struct node *facts = calloc(1, sizeof(*facts));
    struct gpu gpus[NODE_GPUS_MAX];
    (void)fill_links(node, gpus);
    node->incarnation += new_incarnation ? 100 : 0;
    node->sequence = new_incarnation ? 0 : node->sequence;
    node->up = true;
    node->silent = false;
    (void)str_copy(facts->name, sizeof(facts->name), name);
    (void)str_copy(facts->address, sizeof(facts->address),
                   "10.0.0.1"); /* one machine, many agents */
    facts->incarnation = node->incarnation;
    facts->slots = node->slots;
    facts->cpus_milli = 64000;
    facts->memory_bytes = INT64_C(64) << 30;
    facts->port_first = 20000;
    facts->port_last = 20099;
    memcpy(facts->labels, node->labels, sizeof(node->labels));
    facts->labels_count = node->labels_count;
    node_set_gpus(facts, gpus, node->gpus ? node->slots : 0);
    fill_reports(story, node, reports);
    struct event event = {.kind = EVENT_NODE_REGISTER, .request = ++story->next_request};
    event.node_register.facts = facts;
    event.node_register.workers = reports;
    event.node_register.workers_count = node->workers_count;
    story_send(story, &event);
    node_free(facts);
}

void story_restart(struct story *story, int64_t now_ms)
{
    story->wall_offset_ms += story->now_ms - now_ms;
    story->now_ms = now_ms;
    story_send(story, &(struct event){.kind = EVENT_RESTORED});
}

void story_node_label(struct story *story, const char *name, const char *key, const char *value)
{
    struct story_node *node = &story->nodes[story->nodes_count];
    (void)str_copy(node->name, sizeof(node->name), name);
    (void)str_copy(node->labels[0].key, sizeof(node->labels[0].key), key);
    (void)str_copy(node->labels[0].value, sizeof(node->labels[0].value), value);
    node->labels_count = 1;
}

void story_node_up(struct story *story, const char *name, int slots)
{
    struct story_node *node = &story->nodes[story->nodes_count++];
    (void)str_copy(node->name, sizeof(node->name), name);
    node->incarnation = (uint64_t)story->nodes_count;
    node->slots = slots;
    story_register(story, name, false);
    story_follow(story);
}

void story_report(struct story *story, const char *name)
{
    struct story_node *node = story_node(story, name);
    struct worker_report reports[STORY_WORKERS_MAX];
    fill_reports(story, node, reports);
    struct event event = {.kind = EVENT_NODE_REPORT, .request = ++story->next_request};
    event.node_report.node = name;
    event.node_report.incarnation = node->incarnation;
    event.node_report.sequence = ++node->sequence;
    event.node_report.workers = reports;
    event.node_report.workers_count = node->workers_count;
    struct slot_held held[32];
    event.node_report.gpus.held = held;
    for (int slot = 0; slot < 32; slot++)
        if (node->held >> slot & 1)
            held[event.node_report.gpus.held_count++] = (struct slot_held){slot, INT64_C(1) << 30};
    struct gpu_now now[32] = {0};
    for (int slot = 0; slot < 32; slot++)
        now[slot] = (struct gpu_now){.known = true, .lost = node->lost >> slot & 1};
    event.node_report.gpus.now = now;
    event.node_report.gpus.now_count = node->gpus ? 32 : 0;
    struct gpu links[NODE_GPUS_MAX];
    event.node_report.gpus.links = links;
    event.node_report.gpus.links_count = fill_links(node, links);
    story_send(story, &event);
}

struct following {
    struct story *story;
    struct story_node *node;
    bool named[STORY_WORKERS_MAX];
    bool changed;
};

static void end(struct story *story, struct story_worker *worker, int code, int signal)
{
    worker->exited = true;
    worker->exit = (struct exit_info){
        .code = code, .signal = signal, .wall_ms = story->now_ms + story->wall_offset_ms};
}

static void stop(struct following *f, struct story_worker *worker)
{
    if (worker->exited || worker->stuck)
        return;
    if (!worker->term_at)
        worker->term_at = f->story->now_ms;
    if (!worker->ignores_term)
        end(f->story, worker, 0, 15);
    else if (f->story->now_ms >= worker->term_at + STOP_GRACE_MS)
        end(f->story, worker, 0, 9);
    f->changed |= worker->exited;
}

static void follow_one(void *arg, const struct assignment *a)
{
    struct following *f = arg;
    int at = 0;
    while (at < f->node->workers_count && (strcmp(f->node->workers[at].job, a->job->id) != 0 ||
                                           f->node->workers[at].uid != a->worker->uid))
        at++;
    struct story_worker *w = &f->node->workers[at];
    if (at == f->node->workers_count) {
        f->node->workers_count++;
        *w = (struct story_worker){.uid = a->worker->uid};
        (void)str_copy(w->job, sizeof(w->job), a->job->id);
        f->changed = true;
    }
    f->named[at] = true;
    w->rank = a->rank;
    if (a->stop) {
        stop(f, w);
        return;
    }
    if ((f->story->finish || f->node->breaks) && !w->exited) {
        end(f->story, w, f->node->breaks, 0);
        f->changed = true;
    }
    bool starts = f->story->slow && !w->joined;
    if (f->story->unaware || w->never_joins || w->exited || starts)
        return;
    if (a->published && w->joined < a->generation) {
        w->joined = a->generation;
        f->changed = true;
    } else if (a->generation > w->joined && w->joining < a->generation) {
        w->joining = a->generation;
        f->changed = true;
    }
}

static bool follow_node(struct story *story, struct story_node *node)
{
    struct following f = {.story = story, .node = node};
    int before = node->workers_count;
    cluster_assignments(story->cluster, node->name, follow_one, &f);
    int kept = 0;
    for (int i = 0; i < node->workers_count; i++) {
        if (!f.named[i] && i < before && !node->workers[i].exited)
            stop(&f, &node->workers[i]);
        bool forget = !f.named[i] && node->workers[i].exited;
        f.changed |= forget;
        if (!forget)
            node->workers[kept++] = node->workers[i];
    }
    node->workers_count = kept;
    return f.changed;
}

void story_follow(struct story *story)
{
    bool changed = true;
    for (int round = 0; changed; round++) {
        cr_assert_lt(round, ROUNDS_MAX, "no end: ...%s",
                     story->trace +
                         (strlen(story->trace) > 2000 ? strlen(story->trace) - 2000 : 0));
        changed = false;
        for (int i = 0; i < story->nodes_count; i++) {
            struct story_node *node = &story->nodes[i];
            if (!node->up || node->silent || !follow_node(story, node))
                continue;
            changed = true;
            story_report(story, node->name);
        }
    }
}

void story_wait(struct story *story, int64_t ms)
{
    for (int64_t until = story->now_ms + ms; story->now_ms < until;) {
        int64_t next = story->now_ms + BEAT_MS < until ? story->now_ms + BEAT_MS : until;
        int64_t wake = core_wake_at(story->cluster);
        story->now_ms = wake > story->now_ms && wake < next ? wake : next;
        for (int i = 0; i < story->nodes_count; i++)
            if (story->nodes[i].up && !story->nodes[i].silent)
                story_report(story, story->nodes[i].name);
        story_send(story, &(struct event){.kind = EVENT_TICK});
        story_follow(story);
    }
}

struct spec *story_spec_build(const struct story_spec *s)
{
    static const char *const command[] = {"train"};
    char json[256];
    struct pair constraint = {.key = "gpu", .value = s->constraint};
    struct pair resume = {.key = "resume_from", .value = s->resume_from};
    (void)snprintf(json, sizeof(json), "{\"name\":\"%s\",\"priority\":%d}", s->name, s->priority);
    char priority[16];
    (void)snprintf(priority, sizeof(priority), "%d", s->priority);
    struct spec_input input = {.json = json,
                               .name = s->name,
                               .command = command,
                               .command_count = 1,
                               .nodes_min = (uint32_t)s->nodes_min,
                               .nodes_max = (uint32_t)s->nodes_max,
                               .workers_per_node = (uint32_t)s->workers,
                               .slots = (uint32_t)s->slots,
                               .priority = priority,
                               .tenant = s->tenant,
                               .spares = (uint32_t)s->spares,
                               .has_restart = s->restart_max != 0,
                               .restart_max = s->restart_max > 0 ? (uint32_t)s->restart_max : 0,
                               .on_no_progress = s->retry ? "retry" : NULL,
                               .on_failure = s->stops ? "stop" : NULL,
                               .elastic = s->elastic,
                               .max_runtime = s->max_runtime,
                               .signal = s->signal,
                               .backoff = s->backoff,
                               .topology = s->topology,
                               .checkpoint_dir = s->checkpoint_dir,
                               .training = &resume,
                               .training_count = s->resume_from ? 1 : 0,
                               .constraints = &constraint,
                               .constraints_count = s->constraint ? 1 : 0};
    struct spec *spec = NULL;
    struct error err = {0};
    cr_assert_eq(spec_build(&input, &spec, &err), 0, "%s", err.text);
    spec->checkpoint_keep = 2; /* also of jobs that name no folder: core looks at what is told */
    return spec;
}

const char *story_submit_key(struct story *story, const struct story_spec *s, const char *key)
{
    static const uint8_t secret[SECRET_BYTES] = {1};
    struct spec *spec = story_spec_build(s);
    struct event event = {.kind = EVENT_JOB_SUBMIT, .request = ++story->next_request};
    event.job_submit.spec = spec;
    event.job_submit.idempotency_key = key;
    event.job_submit.secret = secret;
    story_send(story, &event);
    spec_release(spec);
    return story->answered;
}

const char *story_submit(struct story *story, const struct story_spec *spec)
{
    return story_submit_key(story, spec, "");
}

void story_tenant(struct story *story, const char *name, int weight, int guaranteed, int limit)
{
    struct tenant facts = {.weight = weight, .guaranteed_slots = guaranteed, .limit_slots = limit};
    struct event event = {.kind = EVENT_TENANT_SET, .request = ++story->next_request};
    (void)str_copy(facts.name, sizeof(facts.name), name);
    event.tenant_set.facts = &facts;
    story_send(story, &event);
}

void story_scale(struct story *story, const char *id, int min, int max)
{
    struct event event = {.kind = EVENT_JOB_SCALE, .request = ++story->next_request};
    event.job_scale.id = id;
    event.job_scale.nodes_min = min;
    event.job_scale.nodes_max = max;
    story_send(story, &event);
}

void story_cancel(struct story *story, const char *id)
{
    struct event event = {.kind = EVENT_JOB_CANCEL, .request = ++story->next_request};
    event.job_cancel.id = id;
    event.job_cancel.reason = "";
    story_send(story, &event);
}

struct job *story_job(struct story *story, const char *id)
{
    struct job *job = cluster_job(story->cluster, id);
    cr_assert_not_null(job);
    return job;
}

struct story_worker *story_worker(struct story *story, const char *id, int rank,
                                  struct story_node **ret_node)
{
    const struct job *job = story_job(story, id);
    const struct group *group = job->current.generation ? &job->current : &job->forming;
    for (int n = 0; n < story->nodes_count; n++)
        for (int i = 0; i < story->nodes[n].workers_count; i++) {
            struct story_worker *w = &story->nodes[n].workers[i];
            if (strcmp(w->job, id) != 0 || w->uid != group->members[rank])
                continue;
            if (ret_node)
                *ret_node = &story->nodes[n];
            return w;
        }
    cr_assert_fail("%s has no rank %d", id, rank);
    abort();
}

void story_exit(struct story *story, const char *id, int rank, int code)
{
    struct story_node *node = NULL;
    end(story, story_worker(story, id, rank, &node), code, 0);
    story_report(story, node->name);
}

void story_kill(struct story *story, const char *id, int rank, int signal)
{
    struct story_node *node = NULL;
    end(story, story_worker(story, id, rank, &node), 0, signal);
    story_report(story, node->name);
}

void story_progress(struct story *story, const char *id, uint64_t step)
{
    const struct job *job = story_job(story, id);
    for (int rank = 0; rank < job->current.world; rank++) {
        struct story_node *node = NULL;
        story_worker(story, id, rank, &node)->step = step;
        story_report(story, node->name);
    }
}

void story_gone(struct story *story, const char *name)
{
    struct event event = {.kind = EVENT_NODE_GONE};
    event.node_gone.node = name;
    event.node_gone.incarnation = story_node(story, name)->incarnation;
    story_node(story, name)->silent = true;
    story_send(story, &event);
}

void story_node_dies(struct story *story, const char *name)
{
    story_gone(story, name);
    story_node(story, name)->up = false;
    story_node(story, name)->workers_count = 0;
}

void story_commit(struct story *story, const char *id, int rank, uint64_t generation, uint64_t step)
{
    const struct job *job = story_job(story, id);
    const struct group *group = job->current.generation ? &job->current : &job->forming;
    const struct worker *worker = job_worker(job, group->members[rank]);
    struct event event = {.kind = EVENT_CHECKPOINT, .request = ++story->next_request};
    event.checkpoint.job = id;
    event.checkpoint.node = worker->node;
    event.checkpoint.uid = worker->uid;
    event.checkpoint.incarnation = story_node(story, worker->node)->incarnation;
    event.checkpoint.done = true;
    event.checkpoint.checkpoint =
        (struct checkpoint){.step = step, .generation = generation, .world = group->world};
    (void)snprintf(event.checkpoint.checkpoint.path, sizeof(event.checkpoint.checkpoint.path),
                   "/ckpt/step-%08llu", (unsigned long long)step);
    story_send(story, &event);
}

void story_node_set(struct story *story, const char *node, enum node_command command)
{
    struct event event = {.kind = EVENT_NODE_SET, .request = ++story->next_request};
    event.node_set.node = node;
    event.node_set.command = command;
    event.node_set.reason = "";
    story_send(story, &event);
}

void story_expect(struct story *story, const char *expected)
{
    cr_expect_str_eq(story->trace, expected, "expected:\n%s\nseen:\n%s", expected, story->trace);
    story->trace[0] = 0;
}

const struct story_spec story_pair = {.name = "pair", .nodes_min = 1, .nodes_max = 2};
const struct story_spec story_rigid = {.name = "rigid", .nodes_min = 2, .nodes_max = 2};

void story_two_nodes(struct story *story)
{
    story_node_up(story, "a", 1);
    story_node_up(story, "b", 1);
    story_expect(story, "a ready reported\nb ready reported\n");
}

void story_running_pair(struct story *story, const struct story_spec *spec)
{
    story_two_nodes(story);
    story_submit(story, spec);
    story_follow(story);
    story_expect(story, "j1 queued submitted\nj1 starting placed\nj1 running all_joined\n");
}
