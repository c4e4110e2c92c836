/* Online backups at any moment, and now and then a lost disk: the store is restored from the newest
 * backup. What was promised until it was taken is promised still (docs/store.md); what was promised
 * since is not, so clients ask again for what is not there. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/store/store_memory_backup.h"
#include "tests/sim/stage.h"

enum {
    GAP_MAX_MS = 15000,
    LOST_FROM_MS = 5000,
    REPAIR_MIN_MS = 8000, /* nothing that was said to the old store is still on its way */
    REPAIR_MAX_MS = 15000,
    LOST_IDS_MAX = 4 * SIM_JOBS_MAX,
};

struct sim_backup { /* with what had been promised when it was taken */
    struct rng rng;
    struct store *store; /* NULL = none yet */
    struct sim_job jobs[SIM_JOBS_MAX];
    struct sim_tenant tenants[SIM_TENANTS_MAX];
    struct sim_operators operators;
    char lost_ids[LOST_IDS_MAX][32]; /* of jobs that restores forgot */
    int lost_ids_count;
};

static void backup_due(struct world *world, void *arg)
{
    struct stage *stage = world->stage;
    struct sim_backup *backup = arg;
    if (stage->calm)
        return;
    /* Only a coordinator that can store takes one; a turn has just ended. */
    if (stage->coordinator && coordinator_ready(stage->coordinator, NULL)) {
        store_close(backup->store);
        backup->store = store_memory_copy(stage->store);
        memcpy(backup->jobs, stage->jobs, sizeof(backup->jobs));
        memcpy(backup->tenants, stage->tenants, sizeof(backup->tenants));
        backup->operators = *stage->operators;
        world_note(world, "a backup is taken");
    }
    world_at(world, world->now_ms + rng_between(&backup->rng, 1, GAP_MAX_MS), backup_due, backup);
}

/* `asked`: the backup was taken while the submit was on its way, so it may hold the job. */
static void forget_job(struct stage *stage, struct sim_job *mine, bool asked)
{
    struct sim_backup *backup = stage->backup;
    if (!asked && backup->lost_ids_count < LOST_IDS_MAX)
        (void)str_copy(backup->lost_ids[backup->lost_ids_count++], sizeof(mine->id), mine->id);
    mine->id[0] = 0;
    mine->cancel_acknowledged = mine->forgotten = false;
    workload_submit(stage, mine);
}

/* What is expected of a job is what was promised by the backup. */
static void expect_job(struct stage *stage, struct sim_job *mine, const struct sim_job *then)
{
    bool known = then->id[0] != 0;
    mine->forgotten = then->forgotten;
    if (mine->id[0] && !known)
        forget_job(stage, mine, then->asking);
    mine->acknowledged_step = then->acknowledged_step;
    mine->acknowledged_generation = then->acknowledged_generation;
    (void)str_copy(mine->ended, sizeof(mine->ended), then->ended);
    mine->generation = then->generation;
    mine->checkpoint_step = then->checkpoint_step;
    mine->checkpoint_generation = then->checkpoint_generation;
    mine->broken = then->broken;
    mine->ledger_closed = then->ledger_closed;
    mine->ledger_ms = then->ledger_ms;
    mine->ledger_seen_ms = 0;
}

/* One that was being asked for then may or may not be in it. */
static void expect_change(struct sim_change *change, const struct sim_change *then)
{
    bool sure = then->holds && !then->open;
    change->a = sure ? then->a : change->a;
    change->b = sure ? then->b : change->b;
    change->holds = sure;
    change->open = false;
}

static void expect_token(struct sim_operators *mine, const struct sim_operators *then)
{
    mine->token_state = then->token_state;
    mine->token_refused_from_ms = then->token_refused_from_ms;
    mine->token_number += then->token_state == SIM_TOKEN_NONE;
}

static void restore_due(struct world *world, void *arg)
{
    struct stage *stage = world->stage;
    struct sim_backup *backup = arg;
    world_note(world, "the store is restored");
    stage->store = store_memory_restore(backup->store, world->now_ms + 1);
    for (int i = 0; i < stage->jobs_count; i++)
        expect_job(stage, &stage->jobs[i], &backup->jobs[i]);
    for (int i = 0; i < SIM_TENANTS_MAX; i++) {
        bool ask = stage->tenants[i].set && !backup->tenants[i].set;
        stage->tenants[i] = backup->tenants[i];
        stage->tenants[i].asking = false;
        if (ask)
            workload_set_tenant(stage, &stage->tenants[i]);
        expect_change(&stage->operators->tenants[i], &backup->operators.tenants[i]);
    }
    for (int i = 0; i < SIM_NODES_MAX; i++)
        expect_change(&stage->operators->nodes[i], &backup->operators.nodes[i]);
    for (int i = 0; i < SIM_JOBS_MAX; i++)
        expect_change(&stage->operators->jobs[i], &backup->operators.jobs[i]);
    expect_token(stage->operators, &backup->operators);
    stage->restores++;
    stage->store_lost = false;
    stage_start_coordinator(stage);
}

/* Who ran the cluster waits until it is there again, and begins anew. */
static void give_up_changes(struct sim_operators *operators)
{
    for (int i = 0; i < SIM_NODES_MAX; i++)
        operators->nodes[i].open = false;
    for (int i = 0; i < SIM_JOBS_MAX; i++)
        operators->jobs[i].open = false;
    for (int i = 0; i < SIM_TENANTS_MAX; i++)
        operators->tenants[i].open = false;
}

static void lose_store(struct world *world, void *arg)
{
    struct stage *stage = world->stage;
    struct sim_backup *backup = arg;
    if (!backup->store || stage->calm)
        return;
    stage_crash_coordinator(stage);
    world_note(world, "the store is lost with its disk");
    store_close(stage->store);
    stage->store = NULL;
    stage->store_lost = true;
    give_up_changes(stage->operators);
    world_at(world, world->now_ms + rng_between(&backup->rng, REPAIR_MIN_MS, REPAIR_MAX_MS),
             restore_due, backup);
}

void backup_init(struct stage *stage, int64_t until_ms)
{
    static struct sim_backup backup; /* one world per process */
    static const double lost_chance = 0.3;
    struct world *world = stage->world;
    stage->backup = &backup;
    rng_fork(&world->rng, &backup.rng);
    if (!rng_chance(&backup.rng, lost_chance))
        return;
    world_at(world, world->now_ms + rng_between(&backup.rng, 1, GAP_MAX_MS), backup_due, &backup);
    world_at(world,
             rng_between(&backup.rng, world->now_ms + LOST_FROM_MS, until_ms - REPAIR_MAX_MS - 1),
             lose_store, &backup);
}

void backup_check(struct stage *stage, const struct cluster *cluster)
{
    for (int i = 0; stage->backup && i < stage->backup->lost_ids_count; i++)
        if (cluster_job(cluster, stage->backup->lost_ids[i]))
            world_fail(stage->world, "%s was forgotten by a restore and is there",
                       stage->backup->lost_ids[i]);
}
