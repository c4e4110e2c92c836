/* A checkpoint counts when this says so: only of the generation that trains now. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/internal.h"

static int check_fence(struct step *step, const struct job *job, struct error *err)
{
    const struct checkpoint *checkpoint = &step->event->checkpoint.checkpoint;
    const struct node *node = cluster_node(step->cluster, step->event->checkpoint.node);
    const struct worker *worker = job_worker(job, step->event->checkpoint.uid);
    const struct group *group = &job->current;
    if (!node || node->incarnation != step->event->checkpoint.incarnation || !worker ||
        strcmp(worker->node, node->name) != 0)
        return error_set(err, E_ABORTED, "this worker does not run on node '%s'",
                         step->event->checkpoint.node);
    bool trains = !job_state_ended(job->state) && group->published && !group->broken &&
                  !job->forming.open && checkpoint->generation == group->generation &&
                  worker_living(worker) && group_rank_of(group, worker->uid) >= 0;
    if (trains)
        return 0;
    error_set(err, E_ABORTED, "generation %llu is over: its checkpoint of step %llu is not taken",
              (unsigned long long)checkpoint->generation, (unsigned long long)checkpoint->step);
    error_hint(err, "join the present generation; training goes on from its state");
    return E_ABORTED;
}

static int check_values(const struct checkpoint *checkpoint, struct error *err)
{
    if (checkpoint->path[0] && checkpoint->size_bytes >= 0)
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "a checkpoint needs a path");
    error_field(err, "checkpoint.path");
    return E_INVALID_ARGUMENT;
}

/* By step, ascending; one of the same step is replaced. False if exactly this one is there. */
static bool insert(struct job *job, const struct checkpoint *checkpoint)
{
    int at = job->checkpoints_count;
    while (at > 0 && job->checkpoints[at - 1].step > checkpoint->step)
        at--;
    if (at > 0 && job->checkpoints[at - 1].step == checkpoint->step) {
        struct checkpoint *old = &job->checkpoints[at - 1];
        bool same =
            old->generation == checkpoint->generation && strcmp(old->path, checkpoint->path) == 0;
        if (!same)
            *old = *checkpoint;
        return !same;
    }
    struct checkpoint *items =
        realloc(job->checkpoints, sizeof *items * ((size_t)job->checkpoints_count + 1));
    insist(items);
    job->checkpoints = items;
    memmove(items + at + 1, items + at, sizeof *items * (size_t)(job->checkpoints_count - at));
    items[at] = *checkpoint;
    job->checkpoints_count++;
    return true;
}

static void drop_first(struct job *job, int count)
{
    job->checkpoints_count -= count;
    memmove(job->checkpoints, job->checkpoints + count,
            sizeof *job->checkpoints * (size_t)job->checkpoints_count);
}

/* Paths beyond `keep`, oldest first, taken off the list; NULL-terminated, NULL if there are none.
 */
static const char **prune(struct job *job)
{
    int keep = job->spec->checkpoint_keep;
    int beyond = keep > 0 ? job->checkpoints_count - keep : 0;
    const char **paths = NULL;
    if (beyond > 0) {
        paths = calloc((size_t)beyond + 1, sizeof *paths);
        insist(paths);
        for (int i = 0; i < beyond; i++) {
            paths[i] = strdup(job->checkpoints[i].path);
            insist(paths[i]);
        }
        drop_first(job, beyond);
    }
    if (job->checkpoints_count > JOB_CHECKPOINTS_MAX)
        drop_first(job, job->checkpoints_count - JOB_CHECKPOINTS_MAX);
    return paths;
}

static void record_checkpoint(struct step *step, struct job *job,
                              const struct checkpoint *checkpoint)
{
    struct reason reason;
    reason_set(&reason, REASON_REPORTED, "step %llu at %.400s",
               (unsigned long long)checkpoint->step, checkpoint->path);
    struct record *record =
        step_record(step, "checkpoint", job, step->event->checkpoint.node, &reason);
    record->generation = checkpoint->generation;
}

void checkpoint_commit(struct step *step)
{
    struct error err = {0};
    struct checkpoint checkpoint = step->event->checkpoint.checkpoint;
    struct job *job = cluster_job(step->cluster, step->event->checkpoint.job);
    if (!job)
        error_set(&err, E_NOT_FOUND, "there is no job '%s'", step->event->checkpoint.job);
    else if (check_values(&checkpoint, &err) == 0)
        (void)check_fence(step, job, &err);
    if (err.code) {
        step_refuse(step, &err);
        return;
    }
    const char **paths = NULL;
    if (step->event->checkpoint.done) {
        if (!checkpoint.wall_ms)
            checkpoint.wall_ms = step->wall_ms;
        if (insert(job, &checkpoint)) {
            paths = step->event->request ? prune(job) : NULL; /* nobody would remove them */
            record_checkpoint(step, job, &checkpoint);
            step_store(step, job);
        }
    }
    step_answer_job(step, job, false);
    if (paths)
        step->ret->items[step->ret->count - 1].prune = paths;
}
