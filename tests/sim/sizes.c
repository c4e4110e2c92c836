/* How large gangs are, and what their tenants are charged for it. */
#include <math.h>
#include <string.h>

#include "coordinator/core/step.h"
#include "coordinator/model/tenant.h"
#include "tests/sim/stage.h"

/* `elastic: off` is a fixed size: that of its first gang. */
static void check_fixed(struct stage *stage, struct sim_job *mine, const struct job *job)
{
    if (strcmp(mine->elastic, "off") != 0 || !job->current.generation || stage->restores)
        return;
    if (mine->fixed_nodes && mine->fixed_nodes != job->current.nodes)
        world_fail(stage->world, "%s is elastic: off, had %d nodes and has %d", job->id,
                   mine->fixed_nodes, job->current.nodes);
    mine->fixed_nodes = job->current.nodes;
}

/* Starting again costs what was done since the checkpoint: unasked it is done for no gang that has
 * just begun. */
static void check_growth(struct stage *stage, struct sim_job *mine, const struct job *job)
{
    int64_t now_ms = stage->world->now_ms;
    bool grows = job->state == JOB_RESTARTING && strcmp(job->reason.kind, "growing") == 0;
    bool scaled = job->nodes_max > 0;
    if (job->current.generation != mine->since_generation) {
        mine->since_ms = stage->looked_at == coordinator_cluster(stage->coordinator) ? now_ms : 0;
        mine->since_generation = job->current.generation;
    }
    if (grows && !mine->grows && !scaled && mine->since_ms && job->current.generation &&
        now_ms - mine->since_ms < RESIZE_SETTLE_MS)
        world_fail(stage->world, "%s starts again to grow after %lld ms", job->id,
                   (long long)(now_ms - mine->since_ms));
    mine->grows = grows;
}

/* A silent program may be importing, and change its size in place a moment later. */
static void check_silence(struct stage *stage, struct sim_job *mine, const struct job *job)
{
    int64_t now_ms = stage->world->now_ms;
    bool restarts = job->state == JOB_RESTARTING && (strcmp(job->reason.kind, "growing") == 0 ||
                                                     strcmp(job->reason.kind, "scaled") == 0);
    bool known = job->spec->elastic != ELASTIC_IN_PLACE;
    for (int i = 0; i < job->workers_count; i++)
        known |= job->workers[i].reports || job->workers[i].state == WORKER_EXITED;
    if (restarts && !mine->resizes && !known && mine->since_ms && job->current.generation &&
        now_ms - mine->since_ms < FIRST_WORD_MS)
        world_fail(stage->world, "%s starts again for its size after %lld ms of silence", job->id,
                   (long long)(now_ms - mine->since_ms));
    mine->resizes = restarts;
}

/* A tenant is charged for the slots that its jobs hold while time passes, and for nothing else, in
 * each life of the coordinator, whichever of them are forgotten. */
static void check_use(struct stage *stage, struct sim_use *mine, const struct tenant *tenant)
{
    static const double rounding = 1e-6;
    int64_t now_ms = stage->world->now_ms;
    double left = exp2((double)(mine->seen_ms - now_ms) / USE_HALF_LIFE_MS);
    double use = tenant_use(tenant, now_ms), want = mine->use * left + mine->slots * (1 - left);
    bool another_life = stage->looked_at != coordinator_cluster(stage->coordinator);
    bool known = mine->seen_ms && !stage->clock_jumps && !stage->restores;
    if (known && fabs(use - want) > rounding)
        world_fail(stage->world, "tenant %s has used %.9f slots, and is charged %.9f%s",
                   tenant->name, want, use, another_life ? " after a restart" : "");
    *mine = (struct sim_use){.use = use, .seen_ms = now_ms, .slots = tenant->slots_used};
}

void sizes_check(struct stage *stage, const struct cluster *cluster)
{
    static const char *const tenants[SIM_USES_MAX] = {"default", "red", "blue"};
    for (int i = 0; i < stage->jobs_count; i++) {
        struct sim_job *mine = &stage->jobs[i];
        const struct job *job = mine->id[0] ? cluster_job(cluster, mine->id) : NULL;
        if (!job)
            continue;
        check_fixed(stage, mine, job);
        check_growth(stage, mine, job);
        check_silence(stage, mine, job);
    }
    for (int i = 0; i < SIM_USES_MAX; i++) {
        const struct tenant *tenant = cluster_tenant(cluster, tenants[i]);
        if (tenant)
            check_use(stage, &stage->uses[i], tenant);
    }
}
