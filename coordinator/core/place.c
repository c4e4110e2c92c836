/* Free nodes meet waiting jobs, then gangs that may grow. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/core/internal.h"
#include "coordinator/scheduler/explain.h"
#include "coordinator/scheduler/filter.h"

enum { REFUSALS_MAX = 16 };

struct refusal { /* the view only shrinks within a pass: what was refused once stays refused */
    const struct spec *spec;
    struct reason reason;
};

struct pass {
    struct step *step;
    struct view view;
    struct refusal refusals[REFUSALS_MAX];
    int refusals_count;
};

const char *place_topology_value(const struct cluster *cluster, const struct job *job)
{
    if (!job->spec->topology[0])
        return NULL;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        const struct node *node = cluster_node(cluster, worker->node);
        if (worker_living(worker) && node)
            return node_label(node, job->spec->topology);
    }
    return NULL;
}

static struct newcomer *newcomers_of(struct step *step, const struct job *job,
                                     const struct placement *placement, int *ret_count)
{
    int each = job->spec->workers_per_node;
    struct newcomer *newcomers = calloc((size_t)(placement->count * each), sizeof *newcomers);
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

static void start_gang(struct step *step, struct job *job, const struct placement *placement)
{
    struct formation formation = {.open = true};
    struct newcomer *newcomers = newcomers_of(step, job, placement, &formation.newcomers_count);
    struct reason reason;
    const struct checkpoint *from = job_last_checkpoint(job);
    formation.newcomers = newcomers;
    job->step = from ? from->step : 0;
    job_forget_workers(job);
    group_form(step, job, &formation);
    reason_set(&reason, REASON_PLACED, "%d workers are being started on %d node%s",
               formation.newcomers_count, placement->count, placement->count == 1 ? "" : "s");
    job_set_state(step, job, JOB_STARTING, &reason);
    free(newcomers);
}

static void grow(struct step *step, struct job *job, const struct placement *placement)
{
    struct formation formation = {.open = false, .kept_count = job->current.world};
    struct newcomer *newcomers = newcomers_of(step, job, placement, &formation.newcomers_count);
    struct rank_request *kept = calloc((size_t)job->current.world, sizeof *kept);
    struct reason reason;
    insist(kept);
    for (int rank = 0; rank < job->current.world; rank++)
        kept[rank] = (struct rank_request){.uid = job->current.members[rank], .rank = rank};
    formation.kept = kept;
    formation.newcomers = newcomers;
    group_form(step, job, &formation);
    reason_set(&reason, REASON_GROWING, "%d node%s can join; training goes on until they are ready",
               placement->count, placement->count == 1 ? "" : "s");
    step_record(step, "growth", job, NULL, &reason);
    free(kept);
    free(newcomers);
}

static const struct reason *refused_before(const struct pass *pass, const struct spec *spec)
{
    for (int i = 0; i < pass->refusals_count; i++)
        if (scheduler_same_request(pass->refusals[i].spec, spec))
            return &pass->refusals[i].reason;
    return NULL;
}

static void remember_refusal(struct pass *pass, const struct spec *spec,
                             const struct reason *reason)
{
    if (pass->refusals_count < REFUSALS_MAX)
        pass->refusals[pass->refusals_count++] = (struct refusal){.spec = spec, .reason = *reason};
}

static bool master_has_port(struct pass *pass, const struct placement *placement,
                            struct reason *ret)
{
    const struct node *node = cluster_node(pass->step->cluster, placement->nodes[0].name);
    if (node->port_first <= 0 || cluster_free_port(pass->step->cluster, node))
        return true;
    reason_set(ret, REASON_NO_PORTS, "all ports %d..%d of node %s are taken", node->port_first,
               node->port_last, node->name);
    reason_hint(ret, "give its agent a wider range of ports");
    return false;
}

static void try_place(struct pass *pass, struct job *job)
{
    struct step *step = pass->step;
    const struct spec *spec = job->spec;
    struct request request = {
        .spec = spec, .nodes_min = spec->nodes_min, .nodes_max = spec->nodes_max};
    struct placement placement = {0};
    struct reason reason;
    bool ready = job->state == JOB_QUEUED || restart_ready(job, step->now_ms);
    const struct reason *before = refused_before(pass, spec);
    if (before) {
        if (ready)
            job_set_reason(step, job, before);
        return;
    }
    if (!scheduler_place(&pass->view, &request, &placement, &reason)) {
        remember_refusal(pass, spec, &reason);
        scheduler_hold(&pass->view, job);
        if (ready)
            job_set_reason(step, job, &reason);
        return;
    }
    if (ready && master_has_port(pass, &placement, &reason))
        start_gang(step, job, &placement);
    else if (ready)
        job_set_reason(step, job, &reason);
    /* A job that is not ready keeps what the view gave it: nobody behind it takes its place. */
    placement_fini(&placement);
}

/* A pass ends when nothing is left to give; those who wait keep their reason, a new job needs its
 * first. */
static void tell_new(struct pass *pass)
{
    struct job *job = pass->step->submitted;
    struct reason reason;
    if (!job || strcmp(job->reason.kind, reason_name(REASON_SUBMITTED)) != 0)
        return;
    struct request request = {
        .spec = job->spec, .nodes_min = job->spec->nodes_min, .nodes_max = job->spec->nodes_max};
    explain_refusal(&pass->view, &request, &reason);
    job_set_reason(pass->step, job, &reason);
}

static bool may_grow(const struct job *job, int64_t now_ms)
{
    return job->state == JOB_RUNNING && job->spec->elastic == ELASTIC_IN_PLACE &&
           job->current.joined && !job->current.broken && !job->forming.generation &&
           job->current.nodes < job->spec->nodes_max && job->grow_after_ms <= now_ms;
}

static bool is_finishing(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (worker_finished(&job->workers[i]))
            return true;
    return false;
}

static void try_grow(struct pass *pass, struct job *job)
{
    struct placement placement = {0};
    struct reason reason;
    struct request request = {.spec = job->spec,
                              .nodes_min = 1,
                              .nodes_max = job->spec->nodes_max - job->current.nodes,
                              .avoid = job,
                              .together = place_topology_value(pass->step->cluster, job)};
    if (!may_grow(job, pass->step->now_ms) || is_finishing(job))
        return;
    if (scheduler_place(&pass->view, &request, &placement, &reason))
        grow(pass->step, job, &placement);
    placement_fini(&placement);
}

static bool anything_to_do(const struct cluster *cluster, int64_t now_ms)
{
    if (cluster_first_waiting(cluster))
        return true;
    for (const struct job *job = cluster_first_active_job(cluster); job;
         job = cluster_next_active_job(cluster, job))
        if (may_grow(job, now_ms))
            return true;
    return false;
}

void place_waiting(struct step *step)
{
    struct pass *pass = NULL;
    if (!anything_to_do(step->cluster, step->now_ms))
        return;
    pass = calloc(1, sizeof *pass);
    insist(pass);
    pass->step = step;
    view_init(&pass->view, step->cluster);
    for (struct job *job = cluster_first_waiting(step->cluster), *next;
         job && pass->view.available > 0; job = next) {
        next = cluster_next_waiting(step->cluster, job);
        try_place(pass, job);
    }
    for (struct job *job = cluster_first_active_job(step->cluster); job && pass->view.available > 0;
         job = cluster_next_active_job(step->cluster, job))
        try_grow(pass, job);
    tell_new(pass);
    view_fini(&pass->view);
    free(pass);
}
