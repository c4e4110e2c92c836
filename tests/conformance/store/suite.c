#include "tests/conformance/store/suite.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

/* A spec of which only what stores keep matters. */
static int parse_spec(void *arg, const char *json, struct spec **ret, struct error *err)
{
    (void)arg;
    char name[NAME_LENGTH_MAX + 1] = "";
    if (sscanf(json, "{\"name\":\"%63[a-z0-9.-]\"", name) != 1)
        return error_set(err, E_INVALID_ARGUMENT, "no spec");
    static const char *const command[] = {"true"};
    struct spec_input input = {.json = json, .name = name, .command = command, .command_count = 1};
    return spec_build(&input, ret, err);
}

static const struct store_loader loader = {.parse_spec = parse_spec};

static struct job *make_job(uint64_t sequence)
{
    struct error err = {0};
    char json[96];
    struct job *job = calloc(1, sizeof(*job));
    (void)str_printf(job->id, sizeof(job->id), "j-%llu", (unsigned long long)sequence);
    (void)str_printf(json, sizeof(json), "{\"name\":\"train-%llu\"}", (unsigned long long)sequence);
    cr_assert_eq(parse_spec(NULL, json, &job->spec, &err), 0, "%s", err.text);
    job->sequence = sequence;
    memset(job->secret, (int)sequence, sizeof(job->secret));
    return job;
}

static void fill_workers(struct job *job)
{
    for (int i = 0; i < 3; i++) {
        struct worker *worker = &job->workers[i];
        worker->uid = (uint64_t)i + 2;
        worker->state = i == 2 ? WORKER_EXITED : WORKER_JOINED;
        worker->should_stop = i == 1;
        worker->held = i == 0;
        worker->aware = true;
        worker->slot = i;
        worker->local_rank = i;
        worker->pid = 4000 + i;
        worker->step = 1234567890123;
        worker->joined = 7;
        worker->joining = 7;
        worker->broken = 6;
        worker->lost_in = 6;
        worker->born = 5;
        worker->generation = 7;
        worker->rank = i;
        (void)str_copy(worker->node, sizeof(worker->node), i ? "b" : "a");
        (void)str_copy(worker->endpoint, sizeof(worker->endpoint), "tcp://127.0.0.1:9;shm:x");
    }
}

static void fill_history(struct job *job)
{
    job->ledger = (struct ledger){.phase = LEDGER_REWORK,
                                  .open = true,
                                  .closed = true,
                                  .begun_ms = -17,
                                  .at_ms = 18,
                                  .sign_ms = 19,
                                  .typical_step_ms = 20,
                                  .step = 21,
                                  .best_step = 22,
                                  .rework_steps = 23};
    for (int i = 0; i < LEDGER_COUNT; i++)
        job->ledger.ms[i] = 5 + i;
    job->restarts = 3;
    job->restarts_without_progress = 2;
    job->progress_step = 180;
    job->charged_generation = 6;
    job->same_cause = 1;
    (void)str_copy(job->last_cause, sizeof(job->last_cause), "exit 1");
    job->cause_wall_ms = 9;
    job->backoff_until_ms = 10;
    job->grow_after_ms = 11;
    job->grow_failures = 12;
    job->step = 210;
    job->total_steps = 1000;
    job->loss = 2.0625;
    job->tokens_per_second = NAN;
    job->broken_at_ms = 13;
    job->broken_at_step = 14;
    job->recoveries = 15;
    job->last_recovery_ms = 16;
    job->stop_deadline_ms = 17;
    job->runtime_deadline_ms = 18;
    job->runtime_used_ms = 24;
    job->runtime_counts_wall_ms = 25;
    job->signal_wall_ms = 27;
    job->use = 1.5;
    job->use_wall_ms = 26;
    job->cancel_requested = true;
    job->ending = JOB_CANCELLED;
    job->exit_code = 19;
    job->submitted_wall_ms = 20;
    job->started_wall_ms = 21;
    job->ended_wall_ms = 22;
    job->running_wall_ms = 23;
    job->may_be_excused = job->excused = true;
    (void)str_copy(job->idempotency_key, sizeof(job->idempotency_key), "key-1");
    (void)str_copy(job->user, sizeof(job->user), "ci");
}

/* A job with something in every part that a restart needs. */
static struct job *make_rich_job(uint64_t sequence)
{
    struct job *job = make_job(sequence);
    job->state = JOB_REFORMING;
    job->reason = (struct reason){.kind = "node_lost",
                                  .text = "node \"b\" is gone — why?\n",
                                  .node = "b",
                                  .rank = -1,
                                  .hint = "bring it back"};
    job->version = 42;
    job->next_generation = 8;
    job->next_uid = 5;
    job->workers = calloc(3, sizeof(*job->workers));
    job->workers_count = job->workers_capacity = 3;
    fill_workers(job);
    job->workers[2].exit = (struct exit_info){.code = 0,
                                              .signal = 9,
                                              .oom = true,
                                              .lost = true,
                                              .text = "killed",
                                              .last_output = "a\tb\n",
                                              .wall_ms = 1700000000000};
    job->current = (struct group){.generation = 6,
                                  .world = 2,
                                  .published = true,
                                  .joined = true,
                                  .broken = true,
                                  .master_node = "a",
                                  .master_port = 29500,
                                  .since_ms = 77};
    job->current.members = calloc(2, sizeof(*job->current.members));
    job->current.members[0] = 2;
    job->current.members[1] = 4;
    job->forming = (struct group){.generation = 7, .world = 1, .open = true, .since_ms = 78};
    job->forming.members = calloc(1, sizeof(*job->forming.members));
    job->forming.members[0] = 2;
    job->checkpoints = calloc(2, sizeof(*job->checkpoints));
    job->checkpoints_count = 2;
    job->checkpoints[0] = (struct checkpoint){.step = 100,
                                              .generation = 3,
                                              .path = "/c/100",
                                              .wall_ms = 5,
                                              .size_bytes = 1 << 20,
                                              .world = 2};
    job->checkpoints[1] = (struct checkpoint){.step = 200,
                                              .generation = 6,
                                              .path = "/c/200",
                                              .wall_ms = 6,
                                              .size_bytes = 2 << 20,
                                              .world = 2};
    fill_history(job);
    return job;
}

static void same_job(const struct job *a, const struct job *b)
{
    cr_assert(b, "job %s is gone", a->id);
    cr_assert_str_eq(a->id, b->id);
    cr_assert_str_eq(a->spec->json, b->spec->json);
    cr_assert_eq(memcmp(a->secret, b->secret, sizeof(a->secret)), 0);
    cr_assert_eq(memcmp(&a->reason, &b->reason, sizeof(a->reason)), 0);
    cr_assert_eq(a->workers_count, b->workers_count);
    for (int i = 0; i < a->workers_count; i++)
        cr_assert_eq(memcmp(&a->workers[i], &b->workers[i], sizeof(a->workers[i])), 0,
                     "worker %d changed", i);
    cr_assert_eq(a->checkpoints_count, b->checkpoints_count);
    for (int i = 0; i < a->checkpoints_count; i++)
        cr_assert_eq(memcmp(&a->checkpoints[i], &b->checkpoints[i], sizeof(a->checkpoints[i])), 0,
                     "checkpoint %d changed", i);
    for (int i = 0; i < a->current.world; i++)
        cr_assert_eq(a->current.members[i], b->current.members[i]);
    for (int i = 0; i < a->forming.world; i++)
        cr_assert_eq(a->forming.members[i], b->forming.members[i]);
    cr_assert(isnan(a->tokens_per_second) == isnan(b->tokens_per_second));
    cr_assert_float_eq(a->loss, b->loss, 0);
    /* Everything else is plain data: compare it whole, without what is derived or elsewhere. */
    struct job x = *a, y = *b;
    struct job *both[] = {&x, &y};
    for (int i = 0; i < 2; i++) {
        struct job *job = both[i];
        job->spec = NULL;
        job->workers = NULL;
        job->workers_capacity = 0;
        job->checkpoints = NULL;
        job->current.members = job->forming.members = NULL;
        job->current.places = job->forming.places = NULL;
        job->current.nodes = job->forming.nodes = 0;
        job->waiting = false;
        job->slots_used = 0;
        job->tenant = NULL;
        job->spec_bytes = 0;
        job->begun = job->flexible = NULL;
        memset(&job->timer, 0, sizeof(job->timer));
        job->tokens_per_second = 0;
    }
    cr_assert_eq(memcmp(&x, &y, sizeof(x)), 0, "a field of the job is not stored");
}

static void fill_node(struct node *node, const char *name)
{
    memset(node, 0, sizeof(*node));
    (void)str_copy(node->name, sizeof(node->name), name);
    node->state = NODE_CORDONED;
    node->reason = (struct reason){.kind = "cordoned", .text = "by hand", .rank = -1};
    node->incarnation = 0xfedcba9876543210;
    for (int i = 0; i < NODE_PAST_MAX; i++)
        node->past[i] = 0x8000000000000001 + (uint64_t)i;
    node->last_report = 99;
    (void)str_copy(node->address, sizeof(node->address), "10.0.0.1");
    (void)str_copy(node->version, sizeof(node->version), "0.1.0");
    node->slots = 8;
    node->cpus_milli = 64500;
    node->memory_bytes = 1LL << 40;
    node->port_first = 30000;
    node->port_last = 30999;
    node->labels[0] = (struct label){.key = "rack", .value = "r1"};
    node->labels[1] = (struct label){.key = "gpu.model", .value = "H200"};
    node->labels_count = 2;
    const struct gpu gpu = {
        .index = 0, .model = "H200", .uuid = "GPU-1", .memory_bytes = 1LL << 37};
    node_set_gpus(node, &gpu, 1);
    node->want_cordon = true;
    node->want_drain = true;
    node->joined_wall_ms = 1;
    node->seen_wall_ms = 2;
    node->desired_version = 3;
}

void store_world_begin(struct store_world *world)
{
    struct error err = {0};
    cr_assert_eq(world->store->verbs->begin(world->store, &err), 0, "%s", err.text);
}

void store_world_commit(struct store_world *world)
{
    struct error err = {0};
    cr_assert_eq(world->store->verbs->commit(world->store, &err), 0, "%s", err.text);
}

static void put_job(struct store_world *world, const struct job *job)
{
    struct error err = {0};
    cr_assert_eq(world->store->verbs->put_job(world->store, job, &err), 0, "%s", err.text);
}

static uint64_t put_record(struct store_world *world, const char *job, const char *kind)
{
    struct error err = {0};
    struct record record = {.wall_ms = 5, .generation = 6, .world = 3, .reason.rank = -1};
    uint64_t seq = 0;
    (void)str_copy(record.job, sizeof(record.job), job);
    (void)str_copy(record.kind, sizeof(record.kind), kind);
    (void)str_copy(record.from, sizeof(record.from), "queued");
    (void)str_copy(record.to, sizeof(record.to), "starting");
    (void)str_copy(record.reason.text, sizeof(record.reason.text), "because");
    cr_assert_eq(world->store->verbs->record(world->store, &record, &seq, &err), 0, "%s", err.text);
    return seq;
}

static struct cluster *load(struct store_world *world)
{
    struct error err = {0};
    struct cluster *cluster = cluster_new(1);
    cr_assert_eq(world->store->verbs->load(world->store, &loader, cluster, &err), 0, "%s",
                 err.text);
    return cluster;
}

struct seen {
    uint64_t seqs[64];
    int count;
    struct store_event last;
};

static void see(void *arg, const struct store_event *event)
{
    struct seen *seen = arg;
    seen->seqs[seen->count++] = event->seq;
    seen->last = *event;
}

static struct seen events(struct store_world *world, struct store_events_query query)
{
    struct error err = {0};
    struct seen seen = {0};
    cr_assert_eq(world->store->verbs->list_events(world->store, &query, see, &seen, &err), 0);
    return seen;
}

static void restart_resumes_exactly(struct store_world *world)
{
    struct job *job = make_rich_job(3), *plain = make_job(4);
    struct node a, b;
    fill_node(&a, "a");
    fill_node(&b, "b");
    store_world_begin(world);
    world->store->verbs->put_node(world->store, &a, NULL);
    world->store->verbs->put_node(world->store, &b, NULL);
    put_job(world, job);
    put_job(world, plain);
    store_world_commit(world);
    world->reopen(world);
    struct cluster *cluster = load(world);
    same_job(job, cluster_job(cluster, job->id));
    same_job(plain, cluster_job(cluster, plain->id));
    cr_assert_eq(cluster_next_sequence(cluster), 5, "sequences go on behind the last");
    const struct node *node = cluster_node(cluster, "a");
    cr_assert(node);
    cr_assert_eq(node->incarnation, a.incarnation);
    cr_assert_arr_eq(node->past, a.past, sizeof(a.past));
    cr_assert_eq(memcmp(node->labels, a.labels, sizeof(a.labels)), 0);
    cr_assert_eq(node->gpus_count, 1);
    cr_assert_eq(memcmp(node->gpus, a.gpus, sizeof(*a.gpus)), 0);
    cr_assert_eq(memcmp(&node->reason, &a.reason, sizeof(a.reason)), 0);
    cr_assert(node->want_cordon && node->want_drain && node->state == NODE_CORDONED);
    cr_assert(node->slots == 8 && node->cpus_milli == 64500 && node->port_last == 30999);
    cr_assert_eq(node->desired_version, 3);
    cluster_free(cluster);
    job_free(job);
    job_free(plain);
    node_set_gpus(&a, NULL, 0);
    node_set_gpus(&b, NULL, 0);
}

static void last_write_counts(struct store_world *world)
{
    struct job *job = make_job(10);
    store_world_begin(world);
    put_job(world, job);
    job->step = 5;
    put_job(world, job);
    store_world_commit(world);
    job->state = JOB_SUCCEEDED;
    job->step = 6;
    store_world_begin(world);
    put_job(world, job);
    store_world_commit(world);
    world->reopen(world);
    struct cluster *cluster = load(world);
    same_job(job, cluster_job(cluster, job->id));
    cluster_free(cluster);
    job_free(job);
}

static void uncommitted_is_gone(struct store_world *world)
{
    struct job *job = make_job(20);
    struct seen before = events(world, (struct store_events_query){.limit = 64});
    store_world_begin(world);
    put_job(world, job);
    put_record(world, job->id, "job_state");
    world->reopen(world);
    struct cluster *cluster = load(world);
    cr_assert_null(cluster_job(cluster, job->id), "an uncommitted job survived a crash");
    cluster_free(cluster);
    store_world_begin(world);
    put_job(world, job);
    put_record(world, job->id, "job_state");
    world->store->verbs->rollback(world->store);
    cluster = load(world);
    cr_assert_null(cluster_job(cluster, job->id), "a rolled back job survived");
    cluster_free(cluster);
    struct seen after = events(world, (struct store_events_query){.limit = 64});
    cr_assert_eq(before.count, after.count);
    job_free(job);
}

static void events_are_numbered_without_gaps(struct store_world *world)
{
    store_world_begin(world);
    uint64_t first = put_record(world, "x-1", "one");
    cr_assert_eq(put_record(world, "", "two"), first + 1);
    cr_assert_eq(put_record(world, "x-1", "three"), first + 2);
    store_world_commit(world);
    store_world_begin(world);
    cr_assert_eq(put_record(world, "x-1", "lost"), first + 3);
    world->store->verbs->rollback(world->store);
    world->reopen(world);
    store_world_begin(world);
    cr_assert_eq(put_record(world, "x-1", "four"), first + 3, "a number was lost");
    store_world_commit(world);
    struct seen all = events(world, (struct store_events_query){.after = first - 1, .limit = 64});
    cr_assert_eq(all.count, 4);
    cr_assert_eq(all.seqs[0], first);
    cr_assert_str_eq(all.last.record.kind, "four");
    cr_assert_eq(all.last.record.world, 3);
    cr_assert_str_eq(all.last.record.reason.text, "because");
    cr_assert_eq(all.last.record.reason.rank, -1);
    struct seen of = events(world, (struct store_events_query){.job = "x-1", .limit = 2});
    cr_assert(of.count == 2 && of.seqs[0] == first && of.seqs[1] == first + 2);
    of = events(world, (struct store_events_query){.job = "x-1", .limit = 2, .newest = true});
    cr_assert(of.count == 2 && of.seqs[0] == first + 2 && of.seqs[1] == first + 3);
    of = events(world, (struct store_events_query){.after = first + 3, .limit = 2});
    cr_assert_eq(of.count, 0);
}

static void forgotten_jobs_are_gone_and_their_events_stay(struct store_world *world)
{
    struct job *kept = make_job(40), *job = make_job(41);
    store_world_begin(world);
    put_job(world, kept);
    put_job(world, job);
    put_record(world, job->id, "job_state");
    store_world_commit(world);
    store_world_begin(world);
    cr_assert_eq(world->store->verbs->forget_job(world->store, 41, NULL), 0);
    world->store->verbs->rollback(world->store);
    struct cluster *cluster = load(world);
    cr_assert(cluster_job(cluster, job->id));
    cluster_free(cluster);
    store_world_begin(world);
    cr_assert_eq(world->store->verbs->forget_job(world->store, 41, NULL), 0);
    store_world_commit(world);
    world->reopen(world);
    cluster = load(world);
    cr_assert(cluster_job(cluster, kept->id));
    cr_assert_null(cluster_job(cluster, job->id));
    cluster_free(cluster);
    struct seen of = events(world, (struct store_events_query){.job = job->id, .limit = 2});
    cr_assert_eq(of.count, 1);
    job_free(kept);
    job_free(job);
}

static void put_node(struct store_world *world, const char *name)
{
    struct node *node = calloc(1, sizeof(*node));
    (void)str_copy(node->name, sizeof(node->name), name);
    (void)str_copy(node->let_in_by, sizeof(node->let_in_by), "0123456789ab");
    cr_assert_eq(world->store->verbs->put_node(world->store, node, NULL), 0);
    free(node);
}

static void expect_node(struct store_world *world, const char *name, bool there)
{
    struct cluster *cluster = load(world);
    const struct node *node = cluster_node(cluster, name);
    cr_expect_eq(node != NULL, there, "%s", name);
    if (node)
        cr_expect_str_eq(node->let_in_by, "0123456789ab");
    cluster_free(cluster);
}

static void forgotten_nodes_are_gone_until_they_are_put_again(struct store_world *world)
{
    const struct store_verbs *verbs = world->store->verbs;
    store_world_begin(world);
    put_node(world, "kept");
    put_node(world, "lost");
    store_world_commit(world);
    store_world_begin(world);
    cr_assert_eq(verbs->forget_node(world->store, "lost", NULL), 0);
    cr_assert_eq(verbs->forget_node(world->store, "never-was", NULL), 0);
    verbs->rollback(world->store);
    expect_node(world, "lost", true);
    store_world_begin(world);
    cr_assert_eq(verbs->forget_node(world->store, "lost", NULL), 0);
    cr_assert_eq(verbs->forget_node(world->store, "never-was", NULL), 0);
    store_world_commit(world);
    world->reopen(world);
    expect_node(world, "lost", false);
    expect_node(world, "kept", true);
    store_world_begin(world);
    put_node(world, "lost");
    store_world_commit(world);
    world->reopen(world);
    expect_node(world, "lost", true);
    verbs = world->store->verbs;
    store_world_begin(world);
    cr_assert_eq(verbs->forget_node(world->store, "lost", NULL), 0);
    put_node(world, "lost"); /* in one transaction */
    store_world_commit(world);
    world->reopen(world);
    expect_node(world, "lost", true);
}

/* A full disk: the transaction fails as a whole, what was there stays readable, and later
 * transactions work again. */
static void full_disk_loses_nothing(struct store_world *world)
{
    struct job *old = make_job(30), *refused = make_job(31);
    store_world_begin(world);
    put_job(world, old);
    store_world_commit(world);
    world->break_commits(world);
    struct error err = {0};
    const struct store_verbs *verbs = world->store->verbs;
    int rc = verbs->begin(world->store, &err);
    for (int i = 0; rc == 0 && i < 2000; i++) {
        struct record record = {.reason.rank = -1};
        uint64_t seq;
        memset(record.reason.text, 'x', sizeof(record.reason.text) - 1);
        rc = verbs->record(world->store, &record, &seq, &err);
    }
    if (rc == 0)
        rc = verbs->put_job(world->store, refused, &err);
    if (rc == 0)
        rc = verbs->commit(world->store, &err);
    cr_assert_eq(rc, E_RESOURCE_EXHAUSTED, "got %d: %s", rc, err.text);
    verbs->rollback(world->store);
    struct cluster *cluster = load(world);
    cr_assert(cluster_job(cluster, old->id));
    cr_assert_null(cluster_job(cluster, refused->id));
    cluster_free(cluster);
    world->mend_commits(world);
    store_world_begin(world);
    put_job(world, refused);
    store_world_commit(world);
    world->reopen(world);
    cluster = load(world);
    cr_assert(cluster_job(cluster, old->id));
    cr_assert(cluster_job(cluster, refused->id));
    cluster_free(cluster);
    job_free(old);
    job_free(refused);
}

void store_suite(void (*make)(struct store_world *ret))
{
    static void (*const stories[])(struct store_world *) = {
        restart_resumes_exactly,
        last_write_counts,
        uncommitted_is_gone,
        events_are_numbered_without_gaps,
        tokens_and_words_stay,
        tokens_and_tenants_are_replaced_not_doubled,
        secrets_are_replaced_and_removed,
        the_audit_trail_is_numbered_without_gaps,
        forgotten_jobs_are_gone_and_their_events_stay,
        forgotten_nodes_are_gone_until_they_are_put_again,
        past_states_come_back,
        full_disk_loses_nothing,
    };
    for (size_t i = 0; i < sizeof(stories) / sizeof(*stories); i++) {
        struct store_world world = {0};
        make(&world);
        world.open(&world);
        stories[i](&world);
        world.close(&world);
    }
}
