/* In place: survivors keep their memory and their ranks; who died on a living node is replaced
 * there, a node that is lost or drained is left behind if enough remain, or replaced by a free one.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/internal.h"

struct plan {
    struct rank_request *kept;
    struct newcomer *newcomers;
    int kept_count, newcomers_count, nodes, survivors;
};

static bool has_finished(const struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++)
        if (worker_finished(job_worker(job, group->members[rank])))
            return true;
    return false;
}

static bool may_survive(const struct job *job)
{
    return job->spec->elastic == ELASTIC_IN_PLACE && job->current.published &&
           job->current.joined && !has_finished(job, &job->current) &&
           !has_finished(job, &job->forming);
}

/* A node of a growing gang whose newcomers failed: growth is dropped there, not repeated. */
static bool gave_up(const struct job *job, const struct group *base, int node_rank, bool growth)
{
    for (int rank = 0; growth && rank < base->world; rank++) {
        const struct worker *worker = job_worker(job, base->members[rank]);
        if (base->places[rank].node_rank == node_rank && !worker_living(worker) &&
            group_rank_of(&job->current, worker->uid) < 0)
            return true;
    }
    return false;
}

static bool is_given_back(const struct job *job, const struct group *base, int node_rank)
{
    for (int rank = 0; rank < base->world; rank++)
        if (base->places[rank].node_rank == node_rank &&
            job_worker(job, base->members[rank])->leaving)
            return true;
    return false;
}

static void plan_node(struct step *step, struct job *job, const struct group *base, int node_rank,
                      struct plan *plan)
{
    for (int rank = 0; rank < base->world; rank++) {
        if (base->places[rank].node_rank != node_rank)
            continue;
        const struct worker *worker = job_worker(job, base->members[rank]);
        if (worker_living(worker)) {
            plan->kept[plan->kept_count++] =
                (struct rank_request){.uid = worker->uid, .rank = rank};
            plan->survivors += group_rank_of(&job->current, worker->uid) >= 0;
        } else {
            plan->newcomers[plan->newcomers_count++] =
                (struct newcomer){.node = cluster_node(step->cluster, worker->node)->name,
                                  .slot = worker->slot,
                                  .local_rank = worker->local_rank,
                                  .rank = rank};
        }
    }
    plan->nodes++;
}

static void plan_base(struct step *step, struct job *job, const struct group *base, bool growth,
                      struct plan *plan)
{
    for (int node_rank = 0; node_rank < base->nodes; node_rank++) {
        int rank = 0;
        while (base->places[rank].node_rank != node_rank)
            rank++;
        const struct worker *worker = job_worker(job, base->members[rank]);
        if (node_usable(cluster_node(step->cluster, worker->node)) &&
            !gave_up(job, base, node_rank, growth) && !is_given_back(job, base, node_rank))
            plan_node(step, job, base, node_rank, plan);
    }
}

/* Nodes to make up for lost ones, taken before the queue: a running gang goes first. */
static bool find_replacements(struct step *step, struct job *job, const struct group *base,
                              int missing, struct placement *ret)
{
    struct view view;
    struct reason reason;
    struct request request = {.spec = job->spec,
                              .nodes_min = missing,
                              .nodes_max = missing,
                              .avoid = job,
                              .avoid_group = base};
    request.together = place_topology_value(step->cluster, job);
    view_init(&view, step->cluster, step->now_ms);
    bool found = scheduler_place(&view, &request, ret, &reason);
    view_fini(&view);
    return found;
}

static void add_placed(struct step *step, const struct job *job, const struct placement *placement,
                       struct plan *plan)
{
    for (int i = 0; i < placement->count; i++)
        for (int local = 0; local < job->spec->workers_per_node; local++)
            plan->newcomers[plan->newcomers_count++] = (struct newcomer){
                .node = cluster_node(step->cluster, placement->nodes[i].name)->name,
                .slot = placement->nodes[i].slots[local],
                .local_rank = local,
                .rank = -1};
    plan->nodes += placement->count;
}

/* Living members that the plan leaves behind (their node is drained, or growth failed there). */
static void stop_left_behind(struct step *step, struct job *job, const struct group *base,
                             const struct plan *plan)
{
    for (int rank = 0; rank < base->world; rank++) {
        bool kept = false;
        for (int i = 0; i < plan->kept_count && !kept; i++)
            kept = plan->kept[i].uid == base->members[rank];
        if (!kept)
            worker_stop(step, job, job_worker(job, base->members[rank]));
    }
}

static void carry_out(struct step *step, struct job *job, const struct group *base,
                      const struct plan *plan, const struct failure *failure)
{
    stop_left_behind(step, job, base, plan);
    struct formation formation = {
        .kept = plan->kept,
        .kept_count = plan->kept_count,
        .newcomers = plan->newcomers,
        .newcomers_count = plan->newcomers_count,
        .open = true,
        .held = failure->charged && job->backoff_until_ms > step->now_ms,
    };
    group_form(step, job, &formation);
    step_record(step, "generation", job, failure->reason.node, &failure->reason);
    if (job->state == JOB_RUNNING)
        job_set_state(step, job, JOB_REFORMING, &failure->reason);
    else
        job_set_reason(step, job, &failure->reason);
}

bool reform(struct step *step, struct job *job, const struct failure *failure)
{
    const struct group *base = job->forming.generation ? &job->forming : &job->current;
    const struct spec *spec = job->spec;
    struct placement extra = {0};
    if (!may_survive(job))
        return false;
    size_t room = (size_t)(base->world + spec_world(spec, spec->nodes_max));
    struct plan plan = {.kept = calloc(room, sizeof *plan.kept),
                        .newcomers = calloc(room, sizeof *plan.newcomers)};
    insist(plan.kept && plan.newcomers);
    plan_base(step, job, base, failure->growth_only, &plan);
    int missing = spec->nodes_min - plan.nodes, kept = 0;
    struct newcomer *spares = plan.newcomers + plan.newcomers_count;
    bool possible = plan.survivors > 0;
    if (possible && missing > 0)
        missing -= spare_find(step, job, missing, spares, &kept);
    if (possible && missing > 0)
        possible = find_replacements(step, job, base, missing, &extra);
    if (possible) {
        spare_use(step, job, spares, kept);
        plan.newcomers_count += kept;
        add_placed(step, job, &extra, &plan);
        carry_out(step, job, base, &plan, failure);
    }
    placement_fini(&extra);
    free(plan.kept);
    free(plan.newcomers);
    return possible;
}
