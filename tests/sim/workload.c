/* What users do: submit with idempotency keys and ask again until answered; cancel now and then. */
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "proto/client.pb-c.h"
#include "tests/sim/stage.h"

enum {
    SUBMIT_SPAN_MS = 30000,
    CANCEL_SPAN_MS = 40000,
    ASK_AGAIN_MS = 300,
    CALL_MS = 2000,
    ARGS_MAX = 11,
    JOBS_MAX = 12,
};

struct sim_job *workload_job(struct stage *stage, const char *id)
{
    for (int i = 0; i < stage->jobs_count; i++)
        if (strcmp(stage->jobs[i].id, id) == 0)
            return &stage->jobs[i];
    return NULL;
}

static void submit_due(struct world *world, void *arg);
static void cancel_due(struct world *world, void *arg);

static void submitted(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct sim_job *job = arg;
    const Muster__Job *answer = (const Muster__Job *)message;
    job->asking = false;
    if (err->code)
        (void)str_copy(job->refusal, sizeof(job->refusal), err->text);
    if (err->code)
        return; /* submit_due asks again */
    if (job->id[0])
        return;
    (void)str_copy(job->id, sizeof(job->id), answer->id);
}

void workload_submit(struct stage *stage, struct sim_job *job)
{
    world_at(stage->world, stage->world->now_ms, submit_due, job);
}

static const char *const *argv_of(const struct script *s, char (*words)[24], char **ret_argv)
{
    int n = 0;
    (void)snprintf(words[n++], 24, "sim");
    (void)snprintf(words[n++], 24, "aware=%d", s->aware);
    (void)snprintf(words[n++], 24, "steps=%d", s->steps);
    (void)snprintf(words[n++], 24, "step_ms=%d", s->step_ms);
    (void)snprintf(words[n++], 24, "every=%d", s->every);
    (void)snprintf(words[n++], 24, "start_ms=%d", s->start_ms);
    (void)snprintf(words[n++], 24, "crash=%d", s->crash_permille);
    (void)snprintf(words[n++], 24, "bug=%d", s->crash_always_at);
    (void)snprintf(words[n++], 24, "pause=%d", s->pause_at);
    (void)snprintf(words[n++], 24, "stubborn=%d", s->ignores_term);
    (void)snprintf(words[n++], 24, "deaf=%d", s->deaf_once);
    for (int i = 0; i < n; i++)
        ret_argv[i] = words[i];
    return (const char *const *)ret_argv;
}

static void send_submit(struct stage *stage, struct sim_job *job)
{
    char words[ARGS_MAX][24], *argv[ARGS_MAX], priority[16], runtime[16], folder[64];
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__JobSpec__Range nodes = MUSTER__JOB_SPEC__RANGE__INIT;
    Muster__JobSpec__Checkpoint checkpoint = MUSTER__JOB_SPEC__CHECKPOINT__INIT;
    Muster__JobSpec__Restart restart = MUSTER__JOB_SPEC__RESTART__INIT;
    Muster__SubmitJobRequest request = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    (void)argv_of(&job->script, words, argv);
    (void)snprintf(priority, sizeof(priority), "%d", job->priority);
    spec.name = job->name;
    spec.command = argv;
    spec.n_command = ARGS_MAX;
    nodes.min = (uint32_t)job->nodes_min;
    nodes.max = (uint32_t)job->nodes_max;
    nodes.spares = (uint32_t)job->spares;
    spec.nodes = &nodes;
    spec.workers_per_node = (uint32_t)job->workers;
    spec.priority = priority;
    spec.tenant = (char *)(uintptr_t)job->tenant;
    (void)snprintf(runtime, sizeof(runtime), "%ds", job->max_runtime_s);
    if (job->max_runtime_s)
        spec.max_runtime = runtime;
    spec.elastic = (char *)(uintptr_t)job->elastic;
    (void)snprintf(folder, sizeof(folder), "/ckpt/%s", job->name);
    checkpoint.dir = folder;
    checkpoint.keep = 2;
    spec.checkpoint = &checkpoint;
    restart.max = 5;
    restart.backoff = (char *)(uintptr_t) "200ms..2s";
    spec.restart = &restart;
    request.spec = &spec;
    struct rpc_options options = {
        .timeout_ms = CALL_MS, .retry = true, .idempotency_key = job->key};
    job->asking = rpc_client_call(stage->client, &muster__coordinator__descriptor, "SubmitJob",
                                  &request.base, &options, submitted, job, NULL) == 0;
}

static void submit_due(struct world *world, void *arg)
{
    struct sim_job *job = arg;
    struct stage *stage = world->stage;
    if (job->id[0]) {
        world_note(world, "%s accepted as %s", job->name, job->id);
        if (job->cancel_at_ms)
            world_at(world, job->cancel_at_ms, cancel_due, job);
        return;
    }
    if (!job->asking)
        send_submit(stage, job);
    world_at(world, world->now_ms + ASK_AGAIN_MS, submit_due, job);
    program_run(stage->client_program);
}

static void cancelled(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct sim_job *job = arg;
    (void)message;
    job->asking = false;
    job->cancel_acknowledged = err->code == 0 || err->code == E_FAILED_PRECONDITION ||
                               (err->code == E_NOT_FOUND && job->forgotten);
}

static void cancel_due(struct world *world, void *arg)
{
    struct sim_job *job = arg;
    Muster__CancelJobRequest request = MUSTER__CANCEL_JOB_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = CALL_MS, .retry = true};
    if (job->cancel_acknowledged)
        return;
    if (!job->asking) {
        request.id = job->id;
        world_note(world, "%s is cancelled", job->name);
        job->asking =
            rpc_client_call(world->stage->client, &muster__coordinator__descriptor, "CancelJob",
                            &request.base, &options, cancelled, job, NULL) == 0;
    }
    world_at(world, world->now_ms + ASK_AGAIN_MS, cancel_due, job);
    program_run(world->stage->client_program);
}

static void tenant_set(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct sim_tenant *tenant = arg;
    (void)message;
    tenant->asking = false;
    tenant->set = err->code == 0;
    tenant->exists |= err->code == E_ALREADY_EXISTS; /* by a call whose answer was lost, or not yet
                                                      * for good: only a yes is a promise */
    if (err->code == E_NOT_FOUND)
        tenant->exists = false;
}

static void tenant_due(struct world *world, void *arg)
{
    struct sim_tenant *tenant = arg;
    Muster__SetTenantRequest request = MUSTER__SET_TENANT_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = CALL_MS, .retry = true};
    if (tenant->set)
        return;
    if (!tenant->asking) {
        request.name = (char *)(uintptr_t)tenant->name;
        request.weight = (uint32_t)tenant->weight;
        request.guaranteed_slots = (uint32_t)tenant->guaranteed;
        request.limit_slots = (uint32_t)tenant->limit;
        request.create = !tenant->exists;
        tenant->asking =
            rpc_client_call(world->stage->client, &muster__coordinator__descriptor, "SetTenant",
                            &request.base, &options, tenant_set, tenant, NULL) == 0;
    }
    world_at(world, world->now_ms + ASK_AGAIN_MS, tenant_due, tenant);
    program_run(world->stage->client_program);
}

void workload_set_tenant(struct stage *stage, struct sim_tenant *tenant)
{
    world_at(stage->world, stage->world->now_ms, tenant_due, tenant);
}

/* "red" is limited, "blue" is guaranteed something. Every job must fit into the limit. */
static void tenants_init(struct stage *stage, struct rng *rng)
{
    int total = 0;
    for (int i = 0; i < stage->nodes_count; i++)
        total += stage->nodes[i].slots;
    stage->tenants[0] = (struct sim_tenant){
        .name = "red", .weight = 1, .limit = (int)rng_between(rng, total / 2 + 1, total)};
    stage->tenants[1] = (struct sim_tenant){
        .name = "blue", .weight = 2, .guaranteed = (int)rng_between(rng, 1, total)};
    for (int i = 0; i < SIM_TENANTS_MAX; i++)
        world_at(stage->world, stage->world->now_ms, tenant_due, &stage->tenants[i]);
}

/* Most are ready soon; some import a lot, and survivors must not wait for them. */
static int draw_start_ms(struct rng *rng)
{
    int ms = (int)rng_between(rng, 10, 1500);
    return ms < 1100 ? ms : ms * 5;
}

static void draw_script(struct rng *rng, struct script *script)
{
    *script = (struct script){.aware = rng_chance(rng, 0.8),
                              .steps = (int)rng_between(rng, 5, 60),
                              .step_ms = (int)rng_between(rng, 100, 400),
                              .every = (int)rng_between(rng, 0, 10),
                              .start_ms = draw_start_ms(rng),
                              .ignores_term = rng_chance(rng, 0.1),
                              .deaf_once = rng_chance(rng, 0.05)};
    if (rng_chance(rng, 0.2))
        script->crash_permille = (int)rng_between(rng, 5, 30);
    if (rng_chance(rng, 0.1))
        script->crash_always_at = (int)rng_between(rng, 2, script->steps);
}

static int min_slots(const struct stage *stage)
{
    int slots = SIM_JOBS_MAX;
    for (int i = 0; i < stage->nodes_count; i++)
        slots = stage->nodes[i].slots < slots ? stage->nodes[i].slots : slots;
    return slots;
}

void workload_init(struct stage *stage)
{
    static const char *const elastic[] = {"in_place", "in_place", "in_place", "restart", "off"};
    static const char *const tenants[] = {"default", "default", "red", "blue"};
    struct world *world = stage->world;
    struct rng rng;
    int lasting = stage->nodes_count - (stage->doomed != NULL); /* what a job may need */
    rng_fork(&world->rng, &rng);
    tenants_init(stage, &rng);
    stage->jobs_count = (int)rng_between(&rng, 2, stage_is_large(world) ? SIM_JOBS_MAX : JOBS_MAX);
    for (int i = 0; i < stage->jobs_count; i++) {
        struct sim_job *job = &stage->jobs[i];
        (void)snprintf(job->name, sizeof(job->name), "job-%d", i);
        (void)snprintf(job->key, sizeof(job->key), "key-%d", i);
        draw_script(&rng, &job->script);
        job->nodes_min = (int)rng_between(&rng, 1, lasting);
        job->nodes_max = (int)rng_between(&rng, job->nodes_min, stage->nodes_count);
        job->spares = i % 4 == 0; /* not drawn: it is for all seeds */
        job->script.pause_at = i % 5 == 2 ? job->script.steps / 2 : 0;
        job->workers = (int)rng_between(&rng, 1, min_slots(stage));
        /* Without a peer that says Hello nobody can tell a deaf program from an unaware one. */
        job->script.deaf_once &= job->script.aware && job->nodes_min * job->workers > 1;
        job->elastic = elastic[rng_below(&rng, 5)];
        if (strcmp(job->elastic, "off") == 0)
            job->nodes_max = job->nodes_min;
        if (job->nodes_max > job->nodes_min && strcmp(job->elastic, "restart") == 0)
            job->script.steps *= 4; /* for growing by a restart there must be time */
        job->priority = (int)rng_between(&rng, -1, 1);
        job->tenant = tenants[rng_below(&rng, 4)];
        if (job->nodes_min * job->workers > stage->tenants[0].limit &&
            strcmp(job->tenant, stage->tenants[0].name) == 0)
            job->tenant = "default";
        if (rng_chance(&rng, 0.3))
            job->max_runtime_s = (int)rng_between(&rng, 20, 120);
        job->submit_at_ms = world->now_ms + rng_between(&rng, 0, SUBMIT_SPAN_MS);
        if (rng_chance(&rng, 0.15))
            job->cancel_at_ms = job->submit_at_ms + rng_between(&rng, 0, CANCEL_SPAN_MS);
        world_at(world, job->submit_at_ms, submit_due, job);
    }
}
