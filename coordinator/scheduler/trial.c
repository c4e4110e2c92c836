#include "coordinator/scheduler/trial.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

struct trial {
    struct pass pass;
    struct absence absent;
    const struct job **ended;
    struct job *copies; /* of those who wait in the queue again */
    bool
        returns[QUEUE_EXTRA_MAX]; /* of each copy: unless it finds a place, nobody gives anything */
    int ended_count, copies_count;
    int missing; /* of those who must find a place */
};

static void begin(struct trial *trial, const struct pass *like, int count)
{
    const struct absence *before = like->view.absent;
    int known = before ? before->jobs_count : 0;
    int active = 0;
    if (like->renew)
        like->renew(like->renew_arg, &trial->pass);
    else
        pass_init(&trial->pass, like->view.cluster, like->view.now_ms);
    for (const struct job *job = cluster_first_begun_job(like->view.cluster); job;
         job = cluster_next_begun_job(like->view.cluster, job))
        active += job->state == JOB_PREEMPTING;
    trial->ended = calloc((size_t)(known + count + active) + 1, sizeof(const struct job *));
    trial->copies = calloc(QUEUE_EXTRA_MAX, sizeof *trial->copies);
    insist(trial->ended && trial->copies);
    if (known > 0)
        memcpy(trial->ended, before->jobs, sizeof(const struct job *) * (size_t)known);
    trial->ended_count = known;
    if (before)
        trial->absent = *before;
    trial->absent.jobs = trial->ended;
    trial->absent.jobs_count = known;
    trial->pass.view.absent = &trial->absent;
}

static void release(struct trial *trial, const struct job *job, const struct worker *worker)
{
    if (worker->state == WORKER_EXITED)
        return;
    view_release(&trial->pass.view, job, worker);
    queue_release(&trial->pass.queue, job->tenant, job->spec->resources.slots);
}

/* The gang is gone, and waits: what is beyond the room for such is not among those who could go
 * first. */
static void end(struct trial *trial, const struct job *job, bool returns)
{
    trial->missing += returns;
    for (int i = 0; i < job->workers_count; i++)
        release(trial, job, &job->workers[i]);
    trial->ended[trial->ended_count++] = job;
    trial->absent.jobs_count = trial->ended_count;
    if (trial->copies_count == QUEUE_EXTRA_MAX)
        return;
    struct job *copy = &trial->copies[trial->copies_count];
    *copy = *job;
    copy->state = JOB_RESTARTING;
    copy->workers_count = 0;
    copy->backoff_until_ms = 0;
    trial->returns[trial->copies_count] = returns;
    trial->copies_count += queue_add(&trial->pass.queue, copy);
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
                release(trial, job, &job->workers[i]);
    }
}

static void concede(struct trial *trial, const struct concession *given)
{
    const struct job *job = given->job;
    if (!given->node) {
        end(trial, job, given->returns);
        return;
    }
    for (int i = 0; i < job->workers_count; i++)
        if (!job->workers[i].should_stop && !job->workers[i].leaving &&
            strcmp(job->workers[i].node, given->node->name) == 0)
            release(trial, job, &job->workers[i]);
}

static bool must_be_placed(const struct trial *trial, const struct job *waiting,
                           const struct job *job)
{
    return waiting->sequence == job->sequence || /* a what-if's copy is another one in each pass */
           (waiting >= trial->copies && waiting < trial->copies + trial->copies_count &&
            trial->returns[waiting - trial->copies]);
}

static bool all_are_placed(struct trial *trial, const struct job *job)
{
    struct verdict verdict;
    const struct job *next;
    trial->missing++;
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
    struct trial *trial = calloc(1, sizeof *trial);
    insist(trial);
    begin(trial, pass, count);
    release_leaving(trial);
    for (int i = 0; i < count; i++)
        concede(trial, &given[i]);
    bool placed = all_are_placed(trial, job);
    pass_fini(&trial->pass);
    free(trial->ended);
    free(trial->copies);
    free(trial);
    return placed;
}
