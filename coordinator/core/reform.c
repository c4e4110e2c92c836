#include "coordinator/core/reform.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/formation.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/spare.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/scheduler/scheduler.h"

struct plan {
    struct rank_request *kept;
    struct newcomer *newcomers;
    struct newcomer *spares; /* those of `newcomers` that are spares of the job */
    int kept_count, newcomers_count, spares_count, nodes;
    int survivors; /* nodes with members of the current group */
};

struct node_ranks { /* of a group on one node, ascending */
    const int *ranks;
    int count;
};

static bool any_member_finished(const struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++)
        if (worker_finished(job_worker(job, group->members[rank])))
            return true;
    return false;
}

static bool may_survive(const struct job *job)
{
    return job->spec->elastic == ELASTIC_IN_PLACE && job->current.published &&
           job->current.joined && !any_member_finished(job, &job->current) &&
           !any_member_finished(job, &job->forming);
}

static const struct group *base_of(const struct job *job)
{
    return job->forming.generation ? &job->forming : &job->current;
}

static bool is_current(const struct job *job, const struct group *base, const struct worker *worker)
{
    return base == &job->current || group_rank_of(&job->current, worker->uid) >= 0;
}

/* The ranks of a group by node, and on each in ascending order: node n has ranks
 * ret_ranks[ret_first[n]] up to ret_ranks[ret_first[n + 1]]. */
static void sort_by_node(const struct group *base, int *ret_ranks, int *ret_first)
{
    for (int rank = 0; rank < base->world; rank++)
        ret_first[base->places[rank].node_rank + 1]++;
    for (int node = 0; node < base->nodes; node++)
        ret_first[node + 1] += ret_first[node];
    for (int rank = 0; rank < base->world; rank++)
        ret_ranks[ret_first[base->places[rank].node_rank]++] = rank;
    for (int node = base->nodes; node > 0; node--)
        ret_first[node] = ret_first[node - 1];
    ret_first[0] = 0;
}

static bool holds_any(const struct node *node, const struct worker *worker, int slots)
{
    for (int slot = worker->slot; slot < worker->slot + slots; slot++)
        if (node_holds(node, slot))
            return true;
    return false;
}

/* True unless the node is lost, drained or given back. Also false for a node of a growing gang on
 * which new workers failed: that growth is dropped, not repeated. Also false if a new worker there
 * would wait for slots of an unkillable process, or for a GPU's memory. */
static bool node_stays(const struct step *step, const struct job *job, const struct group *base,
                       bool growth, const struct node_ranks *node)
{
    const struct worker *first = job_worker(job, base->members[node->ranks[0]]);
    const struct node *where = cluster_node(step->cluster, first->node);
    if (!node_usable(where))
        return false;
    for (int i = 0; i < node->count; i++) {
        const struct worker *worker = job_worker(job, base->members[node->ranks[i]]);
        bool ended = !worker_living(worker);
        if (worker->leaving ||
            (ended && (where->stuck > 0 || holds_any(where, worker, job->spec->resources.slots))) ||
            (growth && ended && !is_current(job, base, worker)))
            return false;
    }
    return true;
}

static void plan_node(struct step *step, struct job *job, const struct group *base,
                      const struct node_ranks *node, struct plan *plan)
{
    bool survives = false;
    for (int i = 0; i < node->count; i++) {
        int rank = node->ranks[i];
        const struct worker *worker = job_worker(job, base->members[rank]);
        if (worker_living(worker)) {
            plan->kept[plan->kept_count++] =
                (struct rank_request){.uid = worker->uid, .rank = rank};
            survives = survives || is_current(job, base, worker);
        } else {
            plan->newcomers[plan->newcomers_count++] =
                (struct newcomer){.node = cluster_node(step->cluster, worker->node)->name,
                                  .slot = worker->slot,
                                  .local_rank = worker->local_rank,
                                  .rank = rank};
        }
    }
    plan->nodes++;
    plan->survivors += survives;
}

static void plan_base(struct step *step, struct job *job, const struct group *base, bool growth,
                      struct plan *plan)
{
    int *ranks = calloc((size_t)base->world, sizeof(*ranks));
    int *first = calloc((size_t)base->nodes + 1, sizeof(*first));
    insist(ranks && first);
    sort_by_node(base, ranks, first);
    for (int i = 0; i < base->nodes; i++) {
        struct node_ranks node = {.ranks = ranks + first[i], .count = first[i + 1] - first[i]};
        if (node_stays(step, job, base, growth, &node))
            plan_node(step, job, base, &node, plan);
    }
    free(ranks);
    free(first);
}

/* Nodes to replace lost ones, chosen before the queue: a running gang has precedence. */
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
    request.together = job_topology_value(step->cluster, job);
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

/* False: it is impossible. plan_fini in any case. */
static bool plan_find(struct step *step, struct job *job, bool growth, struct plan *ret)
{
    const struct group *base = base_of(job);
    const struct spec *spec = job->spec;
    struct placement extra = {0};
    *ret = (struct plan){0};
    if (!may_survive(job))
        return false;
    size_t capacity = (size_t)(base->world + spec_world(spec, spec->nodes_max));
    ret->kept = calloc(capacity, sizeof(*ret->kept));
    ret->newcomers = calloc(capacity, sizeof(*ret->newcomers));
    insist(ret->kept && ret->newcomers);
    plan_base(step, job, base, growth, ret);
    int missing = spec->nodes_min - ret->nodes;
    ret->spares = ret->newcomers + ret->newcomers_count;
    if (ret->survivors && missing > 0) {
        int nodes = spare_find(step, job, missing, ret->spares, &ret->spares_count);
        missing -= nodes;
        ret->nodes += nodes;
        ret->newcomers_count += ret->spares_count;
    }
    bool possible =
        ret->survivors && (missing <= 0 || find_replacements(step, job, base, missing, &extra));
    if (possible)
        add_placed(step, job, &extra, ret);
    placement_fini(&extra);
    return possible;
}

static void plan_fini(struct plan *plan)
{
    free(plan->kept);
    free(plan->newcomers);
}

static void form_planned(struct step *step, struct job *job, const struct plan *plan, bool open,
                         bool held)
{
    spare_use(step, job, plan->spares, plan->spares_count);
    group_form(step, job,
               &(struct formation){.kept = plan->kept,
                                   .kept_count = plan->kept_count,
                                   .newcomers = plan->newcomers,
                                   .newcomers_count = plan->newcomers_count,
                                   .open = open,
                                   .held = held});
}

/* Stop living members that the plan leaves out (their node is drained, or growth failed there). */
static void stop_left_behind(struct step *step, struct job *job, const struct group *group,
                             const struct plan *plan)
{
    struct map kept = {0};
    for (int i = 0; i < plan->kept_count; i++)
        insist(!map_set(&kept, plan->kept[i].uid, job, NULL));
    for (int rank = 0; rank < group->world; rank++)
        if (!map_get(&kept, group->members[rank]))
            worker_stop(step, job, job_worker(job, group->members[rank]));
    map_fini(&kept);
}

static void perform_plan(struct step *step, struct job *job, const struct plan *plan,
                         const struct failure *failure)
{
    stop_left_behind(step, job, &job->current, plan);
    stop_left_behind(step, job, &job->forming, plan);
    form_planned(step, job, plan, true, failure->charged && job->backoff_until_ms > step->now_ms);
    step_record(step, "generation", job, failure->reason.node, &failure->reason);
    if (job->state == JOB_RUNNING)
        job_set_state(step, job, JOB_REFORMING, &failure->reason);
    else
        job_set_reason(step, job, &failure->reason);
}

bool reform(struct step *step, struct job *job, const struct failure *failure)
{
    struct plan plan;
    bool possible = plan_find(step, job, failure->growth_only, &plan);
    if (possible)
        perform_plan(step, job, &plan, failure);
    plan_fini(&plan);
    return possible;
}

/* New workers of an earlier attempt may be on a node that is drained as well. */
static void stop_new_left_behind(struct step *step, struct job *job, const struct plan *plan)
{
    for (int rank = 0; rank < job->forming.world; rank++) {
        struct worker *worker = job_worker(job, job->forming.members[rank]);
        bool kept = false;
        for (int i = 0; i < plan->kept_count; i++)
            kept |= plan->kept[i].uid == worker->uid;
        if (!kept && group_rank_of_worker(&job->current, worker) < 0)
            worker_stop(step, job, worker);
    }
}

static int count_new(const struct job *job)
{
    int count = 0;
    for (int rank = 0; rank < job->forming.world; rank++)
        if (group_rank_of(&job->current, job->forming.members[rank]) < 0)
            count++;
    return count;
}

static void start_ahead(struct step *step, struct job *job, const struct plan *plan,
                        const struct failure *failure)
{
    struct reason reason;
    stop_new_left_behind(step, job, plan);
    form_planned(step, job, plan, false, false);
    int count = count_new(job);
    reason_set(&reason, REASON_NODE_DRAINED,
               "%.300s; %d worker%s elsewhere, and training continues until %s ready",
               failure->reason.text, count, count == 1 ? " starts" : "s start",
               count == 1 ? "it is" : "they are");
    (void)str_copy(reason.node, sizeof(reason.node), failure->reason.node);
    step_record(step, "growth", job, reason.node, &reason);
}

bool reform_ahead(struct step *step, struct job *job, const struct failure *failure)
{
    struct plan plan;
    bool possible = plan_find(step, job, false, &plan) && plan.survivors < job->spec->nodes_min &&
                    plan.kept_count + plan.newcomers_count >= job->current.world;
    if (possible)
        start_ahead(step, job, &plan, failure);
    plan_fini(&plan);
    return possible;
}
