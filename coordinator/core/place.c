#include "coordinator/core/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/evict.h"
#include "coordinator/core/formation.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/newcomers.h"
#include "coordinator/core/resize.h"
#include "coordinator/core/runtime.h"
#include "coordinator/core/spare.h"
#include "coordinator/model/cluster_pass.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/gang.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/scheduler/explain.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/preempt.h"

struct placed { /* gangs that start in this pass */
    struct job *job;
    struct placement placement;
};

struct placing {
    struct step *step;
    struct pass pass;
    struct job *first_new; /* submitted since the last pass; NULL = none */
    struct placed *placed;
    int count, capacity;
    bool restarts; /* a gang ends to restart with more nodes: free nodes are reserved for it */
};

static struct newcomer *newcomers_of(struct step *step, const struct job *job,
                                     const struct placement *placement, int *ret_count)
{
    int each = job->spec->workers_per_node;
    struct newcomer *newcomers = calloc((size_t)(placement->count * each), sizeof(*newcomers));
    insist(newcomers);
    for (int i = 0; i < placement->count * each; i++)
        newcomers[i] = (struct newcomer){
            .node = cluster_node(step->cluster, placement->nodes[i / each].name)->name,
            .slot = placement->nodes[i / each].slots[i % each],
            .local_rank = i % each,
            .rank = -1};
    *ret_count = placement->count * each;
    return newcomers;
}

/* Node name -> the place of that node in its last gang, plus one. Nodes are counted in the order of
 * their ranks; only nodes with adjacent ranks are included. */
static void earlier_places(const struct job *job, struct strmap *ret)
{
    int each = job->spec->workers_per_node;
    for (int i = 0; i < job->workers_count; i++) { /* by age: the latest entry of a node counts */
        const struct worker *worker = &job->workers[i];
        if (worker->spare || worker->local_rank != 0 || worker->rank < 0)
            continue;
        if (worker->rank % each == 0)
            insist(
                !strmap_set(ret, worker->node, (void *)(uintptr_t)(worker->rank / each + 1), NULL));
        else
            (void)strmap_remove(ret, worker->node);
    }
}

/* Keep ranks on their nodes: only that rank can use what it stored there (a shard of the data,
 * compiled code). */
static void keep_ranks(const struct job *job, const struct placement *placement,
                       struct newcomer *newcomers)
{
    int each = job->spec->workers_per_node;
    struct strmap places = {0};
    bool *taken = calloc((size_t)placement->count, sizeof(*taken));
    insist(taken);
    earlier_places(job, &places);
    for (int i = 0; i < placement->count; i++) {
        int place = (int)(uintptr_t)strmap_get(&places, placement->nodes[i].name) - 1;
        if (place < 0 || place >= placement->count || taken[place])
            continue;
        taken[place] = true;
        for (int local = 0; local < each; local++)
            newcomers[i * each + local].rank = place * each + local;
    }
    strmap_fini(&places);
    free(taken);
}

static void start_gang(struct step *step, struct job *job, const struct placement *placement)
{
    struct formation formation = {.open = true};
    struct newcomer *newcomers = newcomers_of(step, job, placement, &formation.newcomers_count);
    struct reason reason;
    const struct checkpoint *from = job_last_checkpoint(job);
    keep_ranks(job, placement, newcomers);
    formation.newcomers = newcomers;
    job->step = from ? from->step : 0;
    job->running_wall_ms = job->capacity_since_ms = 0;
    job->grow_now = false;
    job->may_be_excused = job->excused = false;
    job->preempted_by[0] = 0;
    job->preempted_wall_ms = 0;
    job_forget_workers(job);
    runtime_count(step, job);
    group_form(step, job, &formation);
    reason_set(&reason, REASON_PLACED, "%d worker%s being started on %d node%s",
               formation.newcomers_count, formation.newcomers_count == 1 ? " is" : "s are",
               placement->count, str_plural(placement->count));
    job_set_state(step, job, JOB_STARTING, &reason);
    free(newcomers);
}

static const struct group *growth_base(const struct job *job)
{
    return job->forming.generation ? &job->forming : &job->current;
}

/* Of all members of the group that forms, else of the one that trains, and of these newcomers. */
static void start_growth(struct step *step, struct job *job, const struct newcomer *newcomers,
                         int count, int nodes)
{
    const struct group *base = growth_base(job);
    struct formation formation = {
        .open = false, .kept_count = base->world, .newcomers = newcomers, .newcomers_count = count};
    struct rank_request *kept = calloc((size_t)base->world, sizeof(*kept));
    struct reason reason;
    insist(kept);
    for (int rank = 0; rank < base->world; rank++)
        kept[rank] = (struct rank_request){.uid = base->members[rank], .rank = rank};
    formation.kept = kept;
    reason_set(&reason, REASON_GROWING,
               "%d %snode%s can join; training continues until they are "
               "ready",
               nodes, job->forming.generation ? "more " : "", str_plural(nodes));
    group_form(step, job, &formation);
    step_record(step, "growth", job, NULL, &reason);
    free(kept);
}

static bool master_has_port(struct step *step, const struct placement *placement,
                            struct reason *ret)
{
    const struct node *node = cluster_node(step->cluster, placement->nodes[0].name);
    if (node->port_first <= 0 || cluster_free_port(step->cluster, node))
        return true;
    reason_set(ret, REASON_NO_PORTS, "all ports %d..%d of node %s are in use", node->port_first,
               node->port_last, node->name);
    reason_hint(ret, "start its agent with a wider range of ports");
    return false;
}

static void remember_placed(struct placing *placing, struct job *job, struct placement *placement)
{
    placing->placed = array_reserve(placing->placed, placing->count, &placing->capacity,
                                    sizeof(*placing->placed));
    placing->placed[placing->count++] = (struct placed){.job = job, .placement = *placement};
}

static void set_expected_start(struct step *step, struct job *job, int64_t at_ms)
{
    job->starts_at_ms = at_ms;
    job->starts_wall_ms = at_ms ? step->wall_ms + at_ms - step->now_ms : 0;
}

/* Set the reason for its wait; for a job that had nodes before, also which job has them now. */
static void set_waiting_reason(struct step *step, struct job *job, const struct reason *blocker)
{
    struct reason reason = *blocker;
    char to[REASON_NAME_MAX];
    if (job->preempted_by[0])
        (void)snprintf(
            reason.text, sizeof(reason.text), "preempted by job %s; %.340s",
            reason_name_job(cluster_job(step->cluster, job->preempted_by), job->preempted_by, to),
            blocker->text);
    job_set_reason(step, job, &reason);
}

static void try_place(struct placing *placing, struct job *job)
{
    struct step *step = placing->step;
    struct verdict verdict;
    bool ready = pass_is_ready(&placing->pass, job);
    placing->restarts |= resize_under_way(job);
    pass_try(&placing->pass, job, &verdict);
    set_expected_start(step, job, verdict.starts_at_ms);
    if (!verdict.placed && ready)
        set_waiting_reason(step, job, &verdict.reason);
    /* A job that is not ready keeps what the view gave it, so that no later job gets it. */
    if (verdict.placed && ready)
        remember_placed(placing, job, &verdict.placement);
    else
        placement_fini(&verdict.placement);
    if (!verdict.placed && ready && verdict.fresh)
        (void)preempt_try(&placing->pass, job);
}

static void start_placed(struct placing *placing)
{
    struct reason reason;
    for (int i = 0; i < placing->count; i++) {
        struct placed *placed = &placing->placed[i];
        pass_extend(&placing->pass, placed->job, &placed->placement);
        set_expected_start(placing->step, placed->job, 0);
        if (master_has_port(placing->step, &placed->placement, &reason))
            start_gang(placing->step, placed->job, &placed->placement);
        else
            job_set_reason(placing->step, placed->job, &reason);
        placement_fini(&placed->placement);
    }
}

/* No more room is searched, but the jobs in front, from `job` on, get their present reason. They
 * are up to a thousand, so not in each of many passes. */
static void refresh_front_reasons(struct placing *placing, struct job *job)
{
    struct reason reason;
    if (!job || !cluster_front_reasons_due(placing->step->cluster, FRONT_REASONS_MS))
        return;
    for (; job && pass_explains_more(&placing->pass); job = pass_next(&placing->pass))
        if (pass_explain(&placing->pass, job, &reason) && pass_is_ready(&placing->pass, job))
            set_waiting_reason(placing->step, job, &reason);
}

/* Jobs farther back keep the reason of an earlier pass; new jobs need their first. */
static void explain_new_jobs(struct placing *placing)
{
    const struct spec *explained = NULL;
    struct reason reason;
    for (struct job *job = placing->first_new; job;
         job = cluster_next_job(placing->step->cluster, job)) {
        if (strcmp(job->reason.kind, reason_name(REASON_SUBMITTED)) != 0)
            continue;
        struct request request = {.spec = job->spec,
                                  .nodes_min = job->spec->nodes_min,
                                  .nodes_max = job->spec->nodes_max};
        if (!explained || !request_is_same(explained, job->spec))
            explain_refusal(&placing->pass.view, &request, &reason);
        explained = job->spec;
        job_set_reason(placing->step, job, &reason);
    }
}

/* Workers that leave because it was scaled down need no other node. It may have been scaled up
 * since, and they may take all of their grace. */
static bool gives_nodes_away(const struct job *job)
{
    return job->beneficiary[0] && strcmp(job->beneficiary, job->id) != 0;
}

static bool may_grow(const struct job *job, int64_t now_ms)
{
    return job->state == JOB_RUNNING && job->spec->elastic == ELASTIC_IN_PLACE &&
           job->current.joined && !job->current.broken &&
           (!job->forming.generation || newcomers_all_start(job)) &&
           growth_base(job)->nodes < job->spec->nodes_max && !gives_nodes_away(job) &&
           job->grow_after_ms <= now_ms;
}

/* A gang that lost a node gets its spare nodes as members before any other search. */
static bool grow_by_spares(struct placing *placing, struct job *job)
{
    struct step *step = placing->step;
    int lacks = job->spec->nodes_max - growth_base(job)->nodes;
    struct newcomer *newcomers =
        calloc((size_t)spec_world(job->spec, lacks) + 1, sizeof(*newcomers));
    int count = 0;
    insist(newcomers);
    int nodes = spare_find(step, job, lacks, newcomers, &count);
    if (nodes > 0) {
        spare_use(step, job, newcomers, count);
        start_growth(step, job, newcomers, count, nodes);
    }
    free(newcomers);
    return nodes > 0;
}

static void try_grow(struct placing *placing, struct job *job)
{
    struct placement placement = {0};
    if (!may_grow(job, placing->step->now_ms) || job_is_finishing(job) ||
        grow_by_spares(placing, job))
        return;
    if (pass_grow(&placing->pass, job, 1, job_topology_value(placing->step->cluster, job),
                  &placement)) {
        int count = 0;
        struct newcomer *newcomers = newcomers_of(placing->step, job, &placement, &count);
        start_growth(placing->step, job, newcomers, count, placement.count);
        free(newcomers);
    }
    placement_fini(&placement);
}

/* Only note that there is room: the gang uses it when it restarts. */
static void try_resize(struct placing *placing, struct job *job)
{
    struct placement placement = {0};
    struct step *step = placing->step;
    bool is_free = resize_is_safe(step, job, &placing->pass) &&
                   pass_grow(&placing->pass, job, resize_least(job),
                             job_topology_value(step->cluster, job), &placement);
    resize_note_capacity(step, job, is_free ? placement.count : 0);
    placing->restarts |= resize_under_way(job);
    placement_fini(&placement);
}

/* Growth that is due precedes spares; growth that is not due follows them. */
static void try_resize_all(struct placing *placing, bool due)
{
    struct step *step = placing->step;
    for (struct job *job = cluster_first_flexible_job(step->cluster); job;
         job = cluster_next_flexible_job(step->cluster, job))
        if (resize_may_grow(job) && resize_is_due(job, step->now_ms) == due)
            try_resize(placing, job);
}

static void try_spare(struct placing *placing, struct job *job)
{
    struct placement placement = {0};
    int wanted = spare_wanted(job);
    /* A pass that evicts adds no spares: they could take what is being freed. */
    if (wanted == 0 || job_is_finishing(job) || placing->pass.evictions_count > 0)
        return;
    if (pass_spare(&placing->pass, job, wanted, job_topology_value(placing->step->cluster, job),
                   &placement))
        spare_add(placing->step, job, &placement);
    placement_fini(&placement);
}

static bool anything_to_do(const struct cluster *cluster, int64_t now_ms)
{
    if (cluster_first_waiting(cluster))
        return true;
    for (const struct job *job = cluster_first_flexible_job(cluster); job;
         job = cluster_next_flexible_job(cluster, job))
        if (may_grow(job, now_ms) || resize_may_grow(job) || spare_wanted(job) > 0)
            return true;
    return false;
}

void place_waiting(struct step *step)
{
    if (cluster_halted(step->cluster) || !anything_to_do(step->cluster, step->now_ms))
        return;
    struct placing *placing = calloc(1, sizeof(*placing));
    insist(placing);
    placing->step = step;
    placing->first_new = cluster_begin_pass(step->cluster);
    pass_init(&placing->pass, step->cluster, step->now_ms);
    struct view *view = &placing->pass.view;
    struct job *next;
    while ((next = pass_next(&placing->pass)) && pass_goes_on(&placing->pass))
        try_place(placing, next);
    refresh_front_reasons(placing, next);
    evict_perform(step, placing->pass.evictions, placing->pass.evictions_count);
    start_placed(placing);
    for (struct job *job = cluster_first_flexible_job(step->cluster); job;
         job = cluster_next_flexible_job(step->cluster, job))
        try_grow(placing, job);
    try_resize_all(placing, true);
    for (struct job *job = cluster_first_flexible_job(step->cluster);
         job && view->available > 0 && !placing->restarts;
         job = cluster_next_flexible_job(step->cluster, job))
        try_spare(placing, job);
    try_resize_all(placing, false);
    explain_new_jobs(placing);
    pass_fini(&placing->pass);
    free(placing->placed);
    free(placing);
}
