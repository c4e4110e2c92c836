/* A coordinator that keeps few jobs and nodes: in some worlds it forgets what ended or was lost
 * while all else goes on. It forgets only what it may (coordinator/retention.h, node_retention.h);
 * jobs for good, and in the end all it should; a node that comes back joins again. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/limits.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/tenant.h"
#include "coordinator/node_retention.h"
#include "coordinator/retention.h"
#include "tests/sim/stage.h"

static void keep_few_nodes(struct stage *stage)
{
    enum { KEEP_MS_MIN = LEASE_MS, KEEP_MS_MAX = 20000 };
    static const double few_chance = 0.7;
    struct rng rng;
    rng_seed(&rng, ~stage->world->seed - 1);
    if (rng_chance(&rng, few_chance))
        stage->keep_nodes_ms = rng_between(&rng, KEEP_MS_MIN, KEEP_MS_MAX);
}

void keeping_init(struct stage *stage)
{
    enum { KEEP_JOBS_MAX = 3, KEEP_MS_MIN = 500, KEEP_MS_MAX = 30000 };
    static const double few_chance = 0.3, short_chance = 0.5;
    struct rng rng; /* not drawn from the world's: the other worlds stay what they were */
    keep_few_nodes(stage);
    rng_seed(&rng, ~stage->world->seed);
    if (!rng_chance(&rng, few_chance))
        return;
    stage->keep_jobs = (int)rng_between(&rng, 1, KEEP_JOBS_MAX);
    if (rng_chance(&rng, short_chance))
        stage->keep_ms = rng_between(&rng, KEEP_MS_MIN, KEEP_MS_MAX);
}

static void see_state(void *arg, const struct store_event *event)
{
    static const enum job_state ends[] = {JOB_SUCCEEDED, JOB_FAILED, JOB_CANCELLED};
    bool *ended = arg;
    for (int i = 0; i < 3; i++)
        *ended |= strcmp(event->record.kind, "job_state") == 0 &&
                  strcmp(event->record.to, job_state_name(ends[i])) == 0;
}

/* By its events: it may have ended and gone in one turn. */
static bool has_ended(const struct stage *stage, const char *id)
{
    bool ended = false;
    struct store_events_query query = {.job = id, .limit = STORE_EVENTS_PAGE_MAX, .newest = true};
    insist(stage->store->verbs->list_events(stage->store, &query, see_state, &ended, NULL) == 0);
    return ended;
}

/* Of the tenant of that job; of all where the client does not know the job yet. */
static int count_ended(struct stage *stage, const struct cluster *cluster, const char *id)
{
    const struct sim_job *mine = workload_job(stage, id);
    int count = 0;
    for (const struct tenant *tenant = cluster_first_tenant(cluster); tenant;
         tenant = cluster_next_tenant(cluster, tenant))
        count += !mine || strcmp(mine->tenant, tenant->name) == 0 ? tenant->ended_jobs : 0;
    return count;
}

/* The newest tells the next number; by their count only those go beside whom KEEP others of their
 * tenant stay. */
static bool may_be_forgotten(struct stage *stage, const struct cluster *cluster, const char *id)
{
    const struct job *newest = cluster_last_job(cluster);
    return stage->keep_jobs && newest && newest->sequence > strtoull(id + 1, NULL, 10) &&
           (stage->keep_ms || count_ended(stage, cluster, id) >= stage->keep_jobs) &&
           has_ended(stage, id);
}

/* What an operator set goes with the node, after a longer time; not if it is being taken back: the
 * answer to that is still to come. */
static void check_forgotten_node(struct stage *stage, int at)
{
    const struct sim_known *known = &stage->known[at];
    const struct clock *clock = &stage->coordinator_program->env.clock;
    const char *name = stage->nodes[at].name;
    int64_t silent_ms = clock->wall_ms(clock->self) - known->seen_wall_ms;
    const struct sim_change *change = &stage->operators->nodes[at];
    bool taken_back = change->open && change->a == 0;
    int64_t times = known->set_aside && !taken_back ? RETENTION_SET_ASIDE_TIMES : 1;
    if (!stage->keep_nodes_ms || silent_ms <= stage->keep_nodes_ms * times)
        world_fail(stage->world, "node %s was seen %lld ms ago, and is forgotten", name,
                   (long long)silent_ms);
    stage->operators->nodes[at].holds = false;
    stage->nodes_forgotten++;
    world_note(stage->world, "node %s is forgotten", name);
}

static void check_nodes(struct stage *stage, const struct cluster *cluster)
{
    bool another = stage->looked_at != cluster; /* read back from the store */
    for (int i = 0; i < stage->nodes_count; i++) {
        struct sim_known *known = &stage->known[i];
        const struct node *node = cluster_node(cluster, stage->nodes[i].name);
        if (known->known && !node && !another)
            check_forgotten_node(stage, i);
        *known = (struct sim_known){.known = node};
        if (node)
            *known = (struct sim_known){.known = true,
                                        .set_aside = node->want_cordon || node->want_drain,
                                        .seen_wall_ms = node->seen_wall_ms};
    }
}

void keeping_check(struct stage *stage, const struct cluster *cluster)
{
    char id[JOB_ID_MAX + 1];
    check_nodes(stage, cluster);
    for (uint64_t gone; (gone = invariant_vanished(stage->memory, cluster));) {
        (void)str_printf(id, sizeof(id), "j%llu", (unsigned long long)gone);
        if (!may_be_forgotten(stage, cluster, id))
            world_fail(stage->world, "%s is lost", id);
        invariant_forget(stage->memory, gone);
        stage->forgotten++;
        world_note(stage->world, "%s is forgotten", id);
    }
    for (int i = 0; i < stage->jobs_count; i++) {
        struct sim_job *mine = &stage->jobs[i];
        bool there = mine->id[0] && cluster_job(cluster, mine->id);
        if (mine->forgotten && there)
            world_fail(stage->world, "%s was forgotten and is there again", mine->id);
        mine->forgotten |= mine->id[0] && !there && may_be_forgotten(stage, cluster, mine->id);
    }
}

int64_t keeping_done_ms(const struct stage *stage)
{
    return stage->keep_jobs ? 2 * RETENTION_EVERY_MS : 0;
}

void keeping_check_end(struct stage *stage)
{
    const struct cluster *cluster = coordinator_cluster(stage->coordinator);
    for (const struct tenant *tenant = cluster_first_tenant(cluster); tenant;
         tenant = cluster_next_tenant(cluster, tenant))
        if (stage->keep_jobs && tenant->ended_jobs > stage->keep_jobs)
            world_fail(stage->world, "%d ended jobs of %s are kept, %d are to be",
                       tenant->ended_jobs, tenant->name, stage->keep_jobs);
}
