#include "tests/sim/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/store/store_memory.h"

static const char coordinator_url[] = "tcp://10.0.0.0:7000";
static const char data_dir[] = "/data";
static const char *const environment[] = {"PATH=/bin", NULL};

const char *stage_url(void)
{
    return coordinator_url;
}

static char *token_file(struct stage *stage, const char *role)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/%s.token", data_dir, role);
    struct disk *disk = &stage->coordinator_program->env.disk;
    char *text;
    size_t size;
    insist(disk->read_file(disk->self, path, 256, &text, &size, NULL) == 0);
    text[strcspn(text, "\n")] = 0;
    return text;
}

static void coordinator_after_turn(struct program *program)
{
    struct stage *stage = program->owner;
    if (stage->coordinator)
        stage_check_cluster(stage);
}

static void start_again_due(struct world *world, void *arg)
{
    (void)arg;
    if (!world->stage->coordinator)
        stage_start_coordinator(world->stage);
}

/* A full disk keeps it from starting; its service manager tries again. */
static void start_again_later(struct stage *stage, const struct error *err)
{
    enum { AGAIN_MS = 500 };
    world_note(stage->world, "the coordinator does not start: %s", err->text);
    stage->coordinator = NULL;
    program_end(stage->coordinator_program, false);
    world_at(stage->world, stage->world->now_ms + AGAIN_MS, start_again_due, NULL);
}

void stage_start_coordinator(struct stage *stage)
{
    enum { GAP_EVERY = 3, GAP_MS = 40 }; /* in so many worlds passes are far between */
    struct coordinator_options options = {.data_dir = data_dir,
                                          .rpc_url = coordinator_url,
                                          .version = "sim",
                                          .pass_gap_ms =
                                              stage->world->seed % GAP_EVERY == 0 ? GAP_MS : 0,
                                          .keep_jobs = stage->keep_jobs,
                                          .keep_ms = stage->keep_ms,
                                          .keep_nodes_ms = stage->keep_nodes_ms};
    struct error err = {0};
    if (stage->store_lost)
        return;
    struct program *program = program_start(stage->world, "coordinator", 0);
    program->owner = stage;
    stage->coordinator_program = program;
    invariant_memory_free(stage->memory);
    stage->memory = invariant_memory_new();
    world_note(stage->world, "coordinator starts");
    if (coordinator_new(&options, &program->env, program->loop, stage->store, &stage->coordinator,
                        &err) < 0) {
        start_again_later(stage, &err);
        return;
    }
    stage->coordinator_since_ms = stage->world->now_ms;
    stage->looked_at = NULL;
    memset(stage->known, 0, sizeof(stage->known)); /* a backup may know other nodes */
    program->after_turn = coordinator_after_turn;
    program_run(program);
}

void stage_crash_coordinator(struct stage *stage)
{
    if (!stage->coordinator)
        return;
    world_note(stage->world, "coordinator crashes");
    coordinator_free(stage->coordinator);
    stage->coordinator = NULL;
    program_end(stage->coordinator_program, false);
    stage->coordinator_crashes++;
}

static void agent_ended(void *arg, enum agent_end why)
{
    struct sim_node *node = arg;
    world_note(node->world, "agent of %s leaves (%d)", node->name, why);
    node->agent_program->end_after_turn = true;
}

static void agent_after_turn(struct program *program)
{
    struct sim_node *node = program->owner;
    if (program->end_after_turn && node->agent && node->agent_program == program) {
        agent_free(node->agent);
        node->agent = NULL;
        program_end(program, false);
    }
}

void stage_start_agent(struct stage *stage, struct sim_node *node)
{
    char name[32], address[32];
    struct error err = {0};
    if (node->agent || (node == stage->doomed && stage->doomed_down))
        return;
    (void)snprintf(name, sizeof(name), "agent-%s", node->name);
    (void)snprintf(address, sizeof(address), "10.0.0.%d", node->machine);
    char *token = token_file(stage, "agent");
    node->agent_program = program_start(stage->world, name, node->machine);
    node->agent_program->owner = node;
    struct agent_options options = {.name = node->name,
                                    .coordinator = coordinator_url,
                                    .token = token,
                                    .hub_url = node->hub_url,
                                    .address = address,
                                    .version = "sim",
                                    .port_first = 20000,
                                    .port_last = 20031,
                                    .environment = environment,
                                    .on_end = agent_ended,
                                    .on_end_arg = node};
    options.inventory.slots = (uint32_t)node->slots;
    options.inventory.cpus = 64;
    options.inventory.memory_bytes = UINT64_C(64) << 30;
    world_note(stage->world, "agent of %s starts", node->name);
    if (agent_new(&options, &node->agent_program->env, node->agent_program->loop, &node->launcher,
                  &node->agent, &err) < 0)
        world_fail(stage->world, "agent of %s does not start: %s", node->name, err.text);
    node->down_since_ms = 0;
    node->agent_program->after_turn = agent_after_turn;
    free(token);
    program_run(node->agent_program);
}

void stage_crash_agent(struct stage *stage, struct sim_node *node, bool machine)
{
    world_note(stage->world, "%s of %s crashes", machine ? "machine" : "agent", node->name);
    if (node->agent) {
        agent_free(node->agent);
        node->agent = NULL;
        node->open = false;
        program_end(node->agent_program, machine);
    }
    stage->doomed_down |= machine && node == stage->doomed;
    if (!machine) {
        stage->agent_crashes++;
        return;
    }
    node->down_since_ms = stage->world->now_ms;
    sim_node_lose_processes(node);
    sim_disk_crash(stage->world, node->machine);
    stage->node_losses++;
}

bool stage_is_large(const struct world *world)
{
    return world->seed % SIM_LARGE_EVERY == SIM_LARGE_EVERY - 1;
}

void stage_init(struct stage *stage, struct world *world)
{
    enum { NODES_MIN = 2, NODES_MAX = 5, LARGE_MIN = 12, SLOTS_MAX = 3 };
    bool large = stage_is_large(world);
    static const double doom_chance = 0.3;
    memset(stage, 0, sizeof(*stage));
    stage->world = world;
    world->stage = stage;
    insist(store_memory_new(&stage->store, NULL) == 0);
    keeping_init(stage);
    stage_start_coordinator(stage);
    stage->nodes_count = (int)rng_between(&world->rng, large ? LARGE_MIN : NODES_MIN,
                                          large ? SIM_NODES_MAX : NODES_MAX);
    for (int i = 0; i < stage->nodes_count; i++) {
        struct sim_node *node = &stage->nodes[i];
        node->world = world;
        node->machine = i + 1;
        node->slots = (int)rng_between(&world->rng, 1, SLOTS_MAX);
        (void)snprintf(node->name, sizeof(node->name), "n%d", i + 1);
        (void)snprintf(node->hub_url, sizeof(node->hub_url), "ipc:///n%d/hub.sock", i + 1);
        sim_launcher_init(node);
        stage_start_agent(stage, node);
    }
    if (stage->nodes_count > NODES_MIN && rng_chance(&world->rng, doom_chance))
        stage->doomed = &stage->nodes[rng_below(&world->rng, (uint64_t)stage->nodes_count)];
    char *token = token_file(stage, "admin");
    stage->client_program = program_start(world, "client", 0);
    insist(rpc_client_new(&stage->client_program->env, stage->client_program->loop, coordinator_url,
                          token, &stage->client, NULL) == 0);
    free(token);
    workload_init(stage);
}

void stage_fini(struct stage *stage)
{
    invariant_memory_free(stage->memory);
    free(stage->memberships);
}

bool stage_all_ended(const struct stage *stage)
{
    if (!stage->coordinator)
        return false;
    const struct cluster *cluster = coordinator_cluster(stage->coordinator);
    for (int i = 0; i < stage->jobs_count; i++) {
        const struct job *job =
            stage->jobs[i].id[0] ? cluster_job(cluster, stage->jobs[i].id) : NULL;
        if (!stage->jobs[i].forgotten && (!job || !job_state_ended(job->state)))
            return false;
    }
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = 0; i < stage->nodes[n].processes_count; i++)
            if (process_lives(stage->nodes[n].processes[i]))
                return false;
    return true;
}

void stage_describe(const struct stage *stage, char *ret, size_t size)
{
    size_t used = 0;
    ret[0] = 0;
    for (int i = 0; i < stage->jobs_count && stage->coordinator && used < size; i++) {
        const struct sim_job *mine = &stage->jobs[i];
        const struct job *job =
            mine->id[0] ? cluster_job(coordinator_cluster(stage->coordinator), mine->id) : NULL;
        if (mine->forgotten || (job && job_state_ended(job->state)))
            continue;
        used += (size_t)snprintf(ret + used, size - used, "; %s (%s) %s: %s", mine->name, mine->id,
                                 job ? job_state_name(job->state) : "not accepted",
                                 job ? job->reason.text : mine->refusal);
    }
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = 0; i < stage->nodes[n].processes_count && used < size; i++)
            if (process_lives(stage->nodes[n].processes[i]))
                used += (size_t)snprintf(ret + used, size - used, "; %s/%llu lives on %s",
                                         stage->nodes[n].processes[i]->key.job,
                                         (unsigned long long)stage->nodes[n].processes[i]->key.uid,
                                         stage->nodes[n].name);
}
