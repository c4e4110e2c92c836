#include "coordinator/scheduler/trial.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/scheduler/room.h"

struct trial {
    struct pass pass;
    const struct pass *like; /* the running pass: nodes have the same places in both */
    struct absence absent;
    struct map ended;   /* jobs, by sequence */
    struct job *copies; /* of the jobs that wait in the queue again */
    bool *returns;      /* per copy: it must find a place, or the plan is dropped */
    int copies_count;
    int missing; /* number of jobs that must still find a place */
};

static void begin(struct trial *trial, const struct pass *like, int count)
{
    size_t active = 0;
    trial->like = like;
    if (like->renew)
        like->renew(like->renew_arg, &trial->pass);
    else
        pass_init(&trial->pass, like->view.cluster, like->view.now_ms);
    insist(trial->pass.view.count == like->view.count);
    for (const struct job *job = cluster_first_begun_job(like->view.cluster); job;
         job = cluster_next_begun_job(like->view.cluster, job))
        active += job->state == JOB_PREEMPTING;
    active += (size_t)(like->given_count + count);
    trial->copies = calloc(active + 1, sizeof(*trial->copies));
    trial->returns = calloc(active + 1, sizeof(*trial->returns));
    insist(trial->copies && trial->returns);
    if (like->view.absent)
        trial->absent = *like->view.absent;
    trial->absent.ended = &trial->ended;
    trial->pass.view.absent = &trial->absent;
}

static void release(struct trial *trial, const struct job *job, int node, int slot)
{
    view_release_slots(&trial->pass.view, &trial->pass.view.nodes[node], job, slot);
    queue_release(&trial->pass.queue, job->tenant, job->spec->resources.slots);
}

static void release_worker(struct trial *trial, const struct job *job, const struct worker *worker)
{
    const struct view_node *node =
        worker->state == WORKER_EXITED ? NULL : view_find(&trial->pass.view, worker->node);
    if (node)
        release(trial, job, (int)(node - trial->pass.view.nodes), worker->slot);
    else if (worker->state != WORKER_EXITED)
        queue_release(&trial->pass.queue, job->tenant, job->spec->resources.slots);
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
static void end(struct trial *trial, const struct job *job, bool returns)
{
    trial->missing += returns;
    for (int i = 0; i < job->workers_count; i++)
        release_worker(trial, job, &job->workers[i]);
    insist(map_set(&trial->ended, job->sequence, (struct job *)(uintptr_t)job, NULL) == 0);
    struct job *copy = &trial->copies[trial->copies_count];
    copy_waiting(job, copy);
    trial->returns[trial->copies_count++] = returns;
    queue_add(&trial->pass.queue, copy);
}

static void release_leaving(struct trial *trial)
{
    for (const struct job *job = cluster_first_begun_job(trial->pass.view.cluster); job;
         job = cluster_next_begun_job(trial->pass.view.cluster, job)) {
        if (view_is_absent(&trial->pass.view, job))
            continue;
        if (job->state == JOB_PREEMPTING)
            end(trial, job, false);
        for (int i = 0; job->state != JOB_PREEMPTING && i < job->workers_count; i++)
            if (job->workers[i].should_stop || job->workers[i].leaving)
                release_worker(trial, job, &job->workers[i]);
    }
}

static void concede(struct trial *trial, const struct concession *given)
{
    const struct parts *parts = &trial->like->parts;
    if (!given->node) {
        end(trial, given->job, given->returns);
        return;
    }
    int node = (int)(view_find(&trial->pass.view, given->node->name) - trial->pass.view.nodes);
    for (int i = parts->first[node]; i < parts->first[node + 1]; i++)
        if (parts->all[i].job == given->job && !room_is_left(parts->all[i].worker))
            release(trial, given->job, node, parts->all[i].slot);
}

static bool must_be_placed(const struct trial *trial, const struct job *waiting,
                           const struct job *job)
{
    if (waiting >= trial->copies && waiting < trial->copies + trial->copies_count)
        return trial->returns[waiting - trial->copies];
    /* by number, because a what-if makes another copy in each pass */
    for (int i = 0; i < trial->like->rooms_count; i++)
        if (trial->like->rooms[i]->sequence == waiting->sequence)
            return true;
    return waiting->sequence == job->sequence;
}

static bool all_are_placed(struct trial *trial, const struct job *job)
{
    struct verdict verdict;
    const struct job *next;
    trial->missing += 1 + trial->like->rooms_count;
    while ((next = pass_next(&trial->pass)) && pass_goes_on(&trial->pass)) {
        pass_try(&trial->pass, next, &verdict);
        placement_fini(&verdict.placement);
        if (!must_be_placed(trial, next, job))
            continue;
        if (!verdict.placed)
            return false;
        if (--trial->missing == 0)
            return true;
    }
    return false;
}

bool trial_places(const struct pass *pass, const struct job *job, const struct concession *given,
                  int count)
{
    struct trial *trial = calloc(1, sizeof(*trial));
    insist(trial);
    begin(trial, pass, count);
    release_leaving(trial);
    for (int i = 0; i < pass->given_count; i++)
        concede(trial, &pass->given[i]);
    for (int i = 0; i < count; i++)
        concede(trial, &given[i]);
    bool placed = all_are_placed(trial, job);
    pass_fini(&trial->pass);
    map_fini(&trial->ended);
    free(trial->copies);
    free(trial->returns);
    free(trial);
    return placed;
}
