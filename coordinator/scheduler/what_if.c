#include "coordinator/scheduler/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/query.h"
#include "coordinator/scheduler/scheduler.h"

static void release_worker(struct pass *pass, const struct job *job, const struct worker *worker)
{
    if (worker->state == WORKER_EXITED)
        return;
    view_release(&pass->view, job, worker);
    queue_release(&pass->queue, job->tenant, job->spec->resources.slots);
}

static void release_job(struct pass *pass, const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        release_worker(pass, job, &job->workers[i]);
}

/* Jobs removed */

static void apply_gone(struct pass *pass, const struct what_if *what_if, struct altered *altered)
{
    struct absence *absent = &altered->absent;
    absent->jobs = what_if->gone;
    absent->displaced = &altered->by_sequence;
    absent->jobs_count = what_if->gone_count;
    absent->tenants = what_if->gone_tenants;
    absent->tenants_count = what_if->gone_tenants_count;
    pass->view.absent = absent;
    for (const struct job *job = cluster_first_begun_job(pass->view.cluster); job;
         job = cluster_next_begun_job(pass->view.cluster, job))
        if (view_is_absent(&pass->view, job))
            release_job(pass, job);
    for (int i = 0; i < what_if->gone_count; i++)
        queue_leave_out(&pass->queue, what_if->gone[i]);
    for (int i = 0; i < what_if->gone_tenants_count; i++)
        queue_leave_out_tenant(&pass->queue, what_if->gone_tenants[i]);
}

/* Nodes added */

static struct node *copy_node(const struct node *like, int number)
{
    struct node *node = calloc(1, sizeof(*node));
    insist(node);
    *node = *like;
    (void)str_printf(node->name, sizeof(node->name), "%.50s+%d", like->name, number);
    node->state = NODE_READY;
    node->slots_used = node->cpus_milli_used = node->foreign = node->stuck = 0;
    node->memory_bytes_used = 0;
    memset(node->slot_map, 0, sizeof(node->slot_map));
    memset(&node->jobs, 0, sizeof(node->jobs));
    node->gpus = NULL;
    node_set_gpus(node, like->gpus, like->gpus_count);
    for (int i = 0; i < node->gpus_count; i++)
        node->gpus[i].held = false;
    return node;
}

static int apply_added(struct pass *pass, const struct what_if *what_if, struct altered *altered,
                       struct error *err)
{
    for (int i = 0; i < what_if->added_count; i++)
        for (int n = 0; n < what_if->added[i].count; n++) {
            if (altered->added_count == WHAT_IF_ADDED_MAX)
                return error_set(err, E_INVALID_ARGUMENT, "at most %d nodes more can be asked for",
                                 WHAT_IF_ADDED_MAX);
            /* Numbered in all, so that adding a kind twice makes no duplicate names. */
            altered->added[altered->added_count] =
                copy_node(what_if->added[i].like, altered->added_count + 1);
            altered->added_count++;
        }
    if (altered->added_count > 0)
        view_add_nodes(&pass->view, altered->added, altered->added_count);
    return 0;
}

/* Nodes drained */

static bool is_drained(const struct what_if *what_if, const char *name)
{
    for (int i = 0; i < what_if->drained_count; i++)
        if (strcmp(what_if->drained[i]->name, name) == 0)
            return true;
    return false;
}

/* The rest of a gang without its drained nodes; core's reform does the same for real. */
struct remains {
    const struct group *group;
    const struct node *drained; /* one of them */
    int nodes, spares;          /* remaining ones */
    bool survivor;              /* a worker that trains now is on one of those */
};

static void find_remains(const struct cluster *cluster, const struct what_if *what_if,
                         const struct job *job, struct remains *ret)
{
    const struct group *group = job->forming.generation ? &job->forming : &job->current;
    *ret = (struct remains){.group = group};
    int last = -1;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (!worker)
            continue;
        if (is_drained(what_if, worker->node)) {
            ret->drained = cluster_node(cluster, worker->node);
        } else {
            if (group->places[rank].node_rank > last)
                ret->nodes++;
            ret->survivor |= group_rank_of(&job->current, worker->uid) >= 0;
        }
        if (group->places[rank].node_rank > last)
            last = group->places[rank].node_rank;
    }
    for (int i = 0; i < job->workers_count; i++) {
        if (job->workers[i].spare && job->workers[i].local_rank == 0 &&
            job->workers[i].state != WORKER_EXITED && !is_drained(what_if, job->workers[i].node))
            ret->spares++;
    }
}

static void release_drained(struct pass *pass, const struct what_if *what_if, const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (is_drained(what_if, job->workers[i].node))
            release_worker(pass, job, &job->workers[i]);
}

static bool find_replacement(struct pass *pass, const struct job *job,
                             const struct remains *remains)
{
    struct placement placement = {0};
    int missing = job->spec->nodes_min - remains->nodes - remains->spares;
    if (missing <= 0)
        return true;
    struct request request = {.spec = job->spec,
                              .nodes_min = missing,
                              .nodes_max = missing,
                              .avoid = job,
                              .avoid_group = remains->group};
    for (int i = 0; i < job->workers_count && job->spec->topology[0] && !request.together; i++) {
        const struct node *node = cluster_node(pass->view.cluster, job->workers[i].node);
        if (node && job->workers[i].state != WORKER_EXITED)
            request.together = node_label(node, job->spec->topology);
    }
    bool found = scheduler_place(&pass->view, &request, &placement, NULL);
    placement_fini(&placement);
    return found;
}

static void displace_job(struct pass *pass, struct altered *altered, const struct job *job)
{
    struct displaced *displaced = calloc(1, sizeof(*displaced));
    insist(displaced);
    *displaced = (struct displaced){.job = job, .copy = *job};
    displaced->copy.state = JOB_RESTARTING;
    displaced->copy.workers_count = 0;
    displaced->copy.backoff_until_ms = 0;
    release_job(pass, job);
    if (altered->last)
        altered->last->next = displaced;
    else
        altered->displaced = displaced;
    altered->last = displaced;
    insist(!map_set(&altered->by_sequence, job->sequence, displaced, NULL));
    queue_add(&pass->queue, &displaced->copy);
}

static void apply_drain_to(struct pass *pass, const struct what_if *what_if,
                           struct altered *altered, struct forecast *ret, const struct job *job)
{
    struct remains remains;
    struct effect effect = {.job = job};
    find_remains(pass->view.cluster, what_if, job, &remains);
    if (!remains.drained)
        return;
    effect.node = remains.drained;
    bool in_place = job->spec->elastic == ELASTIC_IN_PLACE && job->current.published &&
                    job->current.joined && remains.survivor;
    if (in_place && remains.nodes >= job->spec->nodes_min) {
        effect.kind = EFFECT_SHRINKS;
        release_drained(pass, what_if, job);
        forecast_add(ret, &effect);
    } else if (in_place && find_replacement(pass, job, &remains)) {
        effect.kind = EFFECT_MOVES;
        forecast_add(ret, &effect);
    } else {
        displace_job(pass, altered, job);
    }
}

static bool is_placed_job(const struct job *job)
{
    return job->state == JOB_STARTING || job->state == JOB_RUNNING || job->state == JOB_REFORMING;
}

static void apply_drained(struct pass *pass, const struct what_if *what_if, struct altered *altered,
                          struct forecast *ret)
{
    for (int i = 0; i < what_if->drained_count; i++) {
        struct view_node *node = view_find(&pass->view, what_if->drained[i]->name);
        if (node)
            view_drain(&pass->view, node);
    }
    if (what_if->drained_count == 0)
        return;
    for (const struct job *job = cluster_first_begun_job(pass->view.cluster); job;
         job = cluster_next_begun_job(pass->view.cluster, job))
        if (is_placed_job(job) && !view_is_absent(&pass->view, job))
            apply_drain_to(pass, what_if, altered, ret, job);
}

int what_if_apply(struct pass *pass, const struct what_if *what_if, struct altered *altered,
                  struct forecast *ret, struct error *err)
{
    int rc = apply_added(pass, what_if, altered, err);
    if (rc)
        return rc;
    apply_gone(pass, what_if, altered);
    apply_drained(pass, what_if, altered, ret);
    return 0;
}

void altered_fini(struct altered *altered)
{
    for (int i = 0; i < altered->added_count; i++)
        node_free(altered->added[i]);
    for (struct displaced *next, *one = altered->displaced; one; one = next) {
        next = one->next;
        free(one);
    }
    map_fini(&altered->by_sequence);
}

struct displaced *altered_find(struct altered *altered, const struct job *copy)
{
    struct displaced *one = map_get(&altered->by_sequence, copy->sequence);
    return one && &one->copy == copy ? one : NULL;
}
