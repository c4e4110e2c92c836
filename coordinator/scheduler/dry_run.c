#include "coordinator/scheduler/dry_run.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/query.h"

struct dry_run {
    struct pass pass;
    const struct pass *like; /* the running pass: nodes have the same places in both */
    struct absence absent;
    struct map ended;   /* jobs, by sequence */
    struct job *copies; /* of the jobs that wait in the queue again */
    bool *returns;      /* per copy: it must find a place, or the plan is dropped */
    int copies_count;
    int missing; /* number of jobs that must still find a place */
};

static void dry_run_init(struct dry_run *dry_run, const struct pass *like, int count)
{
    size_t active = 0;
    dry_run->like = like;
    if (like->init_dry_run)
        like->init_dry_run(like->init_dry_run_arg, &dry_run->pass);
    else
        pass_init(&dry_run->pass, like->view.cluster, like->view.now_ms);
    insist(dry_run->pass.view.count == like->view.count);
    for (const struct job *job = cluster_first_begun_job(like->view.cluster); job;
         job = cluster_next_begun_job(like->view.cluster, job)) {
        if (job->state == JOB_PREEMPTING)
            active++;
    }
    active += (size_t)(like->evictions_count + count);
    dry_run->copies = calloc(active + 1, sizeof(*dry_run->copies));
    dry_run->returns = calloc(active + 1, sizeof(*dry_run->returns));
    insist(dry_run->copies && dry_run->returns);
    if (like->view.absent)
        dry_run->absent = *like->view.absent;
    dry_run->absent.ended = &dry_run->ended;
    dry_run->pass.view.absent = &dry_run->absent;
}

static void release_slots(struct dry_run *dry_run, const struct job *job, int node, int slot)
{
    view_release_slots(&dry_run->pass.view, &dry_run->pass.view.nodes[node], job, slot);
    queue_release(&dry_run->pass.queue, job->tenant, job->spec->resources.slots);
}

static void release_worker(struct dry_run *dry_run, const struct job *job,
                           const struct worker *worker)
{
    const struct view_node *node =
        worker->state == WORKER_EXITED ? NULL : view_find(&dry_run->pass.view, worker->node);
    if (node)
        release_slots(dry_run, job, (int)(node - dry_run->pass.view.nodes), worker->slot);
    else if (worker->state != WORKER_EXITED)
        queue_release(&dry_run->pass.queue, job->tenant, job->spec->resources.slots);
}

/* The fields of a waiting job that a pass reads. */
static void copy_waiting(const struct job *job, struct job *ret)
{
    ret->sequence = job->sequence;
    ret->spec = job->spec;
    ret->tenant = job->tenant;
    ret->runtime_deadline_ms = job->runtime_deadline_ms;
    ret->state = JOB_RESTARTING;
}

/* The gang ends and waits. */
static void end_gang(struct dry_run *dry_run, const struct job *job, bool returns)
{
    dry_run->missing += returns;
    for (int i = 0; i < job->workers_count; i++)
        release_worker(dry_run, job, &job->workers[i]);
    insist(!map_set(&dry_run->ended, job->sequence, (struct job *)(uintptr_t)job, NULL));
    struct job *copy = &dry_run->copies[dry_run->copies_count];
    copy_waiting(job, copy);
    dry_run->returns[dry_run->copies_count++] = returns;
    queue_add(&dry_run->pass.queue, copy);
}

static void release_leaving(struct dry_run *dry_run)
{
    for (const struct job *job = cluster_first_begun_job(dry_run->pass.view.cluster); job;
         job = cluster_next_begun_job(dry_run->pass.view.cluster, job)) {
        if (view_is_absent(&dry_run->pass.view, job))
            continue;
        if (job->state == JOB_PREEMPTING)
            end_gang(dry_run, job, false);
        for (int i = 0; job->state != JOB_PREEMPTING && i < job->workers_count; i++)
            if (job->workers[i].should_stop || job->workers[i].leaving)
                release_worker(dry_run, job, &job->workers[i]);
    }
}

static void apply_eviction(struct dry_run *dry_run, const struct eviction *eviction)
{
    const struct parts *parts = &dry_run->like->parts;
    if (!eviction->node) {
        end_gang(dry_run, eviction->job, eviction->returns);
        return;
    }
    int node =
        (int)(view_find(&dry_run->pass.view, eviction->node->name) - dry_run->pass.view.nodes);
    for (int i = parts->first[node]; i < parts->first[node + 1]; i++)
        if (parts->all[i].job == eviction->job && !worker_is_leaving(parts->all[i].worker))
            release_slots(dry_run, eviction->job, node, parts->all[i].slot);
}

static bool must_be_placed(const struct dry_run *dry_run, const struct job *waiting,
                           const struct job *job)
{
    if (waiting >= dry_run->copies && waiting < dry_run->copies + dry_run->copies_count)
        return dry_run->returns[waiting - dry_run->copies];
    /* by number, because a what-if makes another copy in each pass */
    for (int i = 0; i < dry_run->like->nominated_count; i++)
        if (dry_run->like->nominated[i]->sequence == waiting->sequence)
            return true;
    return waiting->sequence == job->sequence;
}

static bool all_are_placed(struct dry_run *dry_run, const struct job *job)
{
    struct verdict verdict;
    const struct job *next;
    dry_run->missing += 1 + dry_run->like->nominated_count;
    while ((next = pass_next(&dry_run->pass)) && pass_goes_on(&dry_run->pass)) {
        pass_try(&dry_run->pass, next, &verdict);
        placement_fini(&verdict.placement);
        if (!must_be_placed(dry_run, next, job))
            continue;
        if (!verdict.placed)
            return false;
        if (--dry_run->missing == 0)
            return true;
    }
    return false;
}

bool dry_run_places(const struct pass *pass, const struct job *job,
                    const struct eviction *evictions, int count)
{
    struct dry_run *dry_run = calloc(1, sizeof(*dry_run));
    insist(dry_run);
    dry_run_init(dry_run, pass, count);
    release_leaving(dry_run);
    for (int i = 0; i < pass->evictions_count; i++)
        apply_eviction(dry_run, &pass->evictions[i]);
    for (int i = 0; i < count; i++)
        apply_eviction(dry_run, &evictions[i]);
    bool placed = all_are_placed(dry_run, job);
    pass_fini(&dry_run->pass);
    map_fini(&dry_run->ended);
    free(dry_run->copies);
    free(dry_run->returns);
    free(dry_run);
    return placed;
}
