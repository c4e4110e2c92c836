#include "coordinator/core/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

enum { CLOCK_AHEAD_MAX_MS = 86400000 }; /* of a worker's clock; one further ahead is wrong */

/* Details of another tenant are hidden: only the existence of its job is visible. */
static int refuse_writer(const struct job *job, bool own, struct error *err)
{
    const char *dir = job->spec->checkpoint_dir;
    error_set(err, E_FAILED_PRECONDITION, "%s%s keeps its checkpoints in %.300s",
              own ? "job " : "another job", own ? job->id : "", dir);
    error_field(err, "checkpoint.dir");
    error_hint(err, "choose another checkpoint.dir, or wait until %s has ended",
               own ? job->id : "it");
    return E_FAILED_PRECONDITION;
}

/* A job that begins at step 0 would overwrite them one by one. */
static int refuse_overwriting(const struct job *job, bool own, struct error *err)
{
    if (own)
        error_set(err, E_FAILED_PRECONDITION,
                  "job %s (%s) left checkpoints in %.300s, the last of step %llu", job->id,
                  job_state_name(job->state), job->spec->checkpoint_dir,
                  (unsigned long long)job_last_checkpoint(job)->step);
    else
        error_set(err, E_FAILED_PRECONDITION, "another job left checkpoints in %.300s",
                  job->spec->checkpoint_dir);
    error_field(err, "checkpoint.dir");
    error_hint(err, "to continue from the newest: training: {resume_from: latest} or --resume-from "
                    "latest; to start from the beginning choose another checkpoint.dir");
    return E_FAILED_PRECONDITION;
}

int checkpoint_folder_free(const struct cluster *cluster, const struct spec *spec,
                           struct error *err)
{
    const struct job *job = cluster_first_in_folder(cluster, spec), *left = NULL;
    for (; job && job_state_ended(job->state); job = cluster_next_in_folder(job))
        if (!left && job_last_checkpoint(job))
            left = job;
    if (job)
        return refuse_writer(job, strcmp(job->spec->tenant, spec->tenant) == 0, err);
    if (left && !spec->resumes)
        return refuse_overwriting(left, strcmp(left->spec->tenant, spec->tenant) == 0, err);
    return 0;
}

/* A program that reports may save before it is known that the whole gang runs (group.c): no other
 * generation trains then. */
static bool starts_in(const struct job *job, const struct worker *worker, uint64_t generation)
{
    return job->state == JOB_STARTING && generation == job->forming.generation &&
           worker_living(worker) && !worker->held && !worker->aware &&
           group_rank_of(&job->forming, worker->uid) >= 0;
}

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
    bool whole = !group->broken || job_gang_ends(job);
    bool trains = !job_state_ended(job->state) && group->published && whole && !job->forming.open &&
                  checkpoint->generation == group->generation && worker_living(worker) &&
                  group_rank_of(group, worker->uid) >= 0;
    if (trains || starts_in(job, worker, checkpoint->generation))
        return 0;
    error_set(err, E_ABORTED, "generation %llu is over: its checkpoint of step %llu is refused",
              (unsigned long long)checkpoint->generation, (unsigned long long)checkpoint->step);
    error_hint(err, "join the current generation; training continues from its state");
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

static bool precedes(const struct checkpoint *checkpoint, const struct checkpoint *than)
{
    if (checkpoint->generation != than->generation)
        return checkpoint->generation < than->generation;
    return checkpoint->step < than->step;
}

static const struct checkpoint *find_checkpoint(const struct job *job, const char *path)
{
    for (int i = 0; i < job->checkpoints_count; i++)
        if (strcmp(job->checkpoints[i].path, path) == 0)
            return &job->checkpoints[i];
    return NULL;
}

static void drop_checkpoint(struct job *job, int at)
{
    job->checkpoints_count--;
    memmove(job->checkpoints + at, job->checkpoints + at + 1,
            sizeof(*job->checkpoints) * (size_t)(job->checkpoints_count - at));
}

static void insert_checkpoint(struct job *job, const struct checkpoint *checkpoint)
{
    const struct checkpoint *overwritten = find_checkpoint(job, checkpoint->path);
    if (overwritten)
        drop_checkpoint(job, (int)(overwritten - job->checkpoints));
    struct checkpoint *items =
        realloc(job->checkpoints, sizeof(*items) * ((size_t)job->checkpoints_count + 1));
    insist(items);
    job->checkpoints = items;
    int at = job->checkpoints_count;
    while (at > 0 && precedes(checkpoint, &items[at - 1]))
        at--;
    memmove(items + at + 1, items + at, sizeof(*items) * (size_t)(job->checkpoints_count - at));
    items[at] = *checkpoint;
    job->checkpoints_count++;
    if (job->checkpoints_count > JOB_CHECKPOINTS_MAX)
        drop_checkpoint(job, 0);
}

/* Forget the paths that the answer to an earlier commit asked to remove. That answer has arrived;
 * otherwise its request would have been repeated before this one. */
static void forget_surplus(struct job *job)
{
    bool spare[JOB_CHECKPOINTS_MAX + 1];
    int count = job->checkpoints_count;
    insist(count <= JOB_CHECKPOINTS_MAX);
    for (int i = 0; i < count; i++)
        spare[i] = job_checkpoint_spare(job, i);
    for (int i = count - 1; i >= 0; i--)
        if (spare[i])
            drop_checkpoint(job, i);
}

/* Paths to be removed, oldest first; NULL-terminated, NULL if there are none. They stay on the list
 * until the next commit, so that a repeated request gets them again. */
static const char **list_surplus(const struct job *job)
{
    const char **paths = calloc((size_t)job->checkpoints_count + 1, sizeof(*paths));
    int count = 0;
    insist(paths);
    for (int i = 0; i < job->checkpoints_count; i++) {
        if (!job_checkpoint_spare(job, i))
            continue;
        paths[count] = strdup(job->checkpoints[i].path);
        insist(paths[count++]);
    }
    if (count)
        return paths;
    free(paths);
    return NULL;
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

/* True for a repeat of an accepted commit. If its worker got a refusal now, it would remove a valid
 * checkpoint. */
static bool is_repeat(const struct step *step, const struct job *job)
{
    const struct checkpoint *checkpoint = &step->event->checkpoint.checkpoint;
    const struct checkpoint *known = find_checkpoint(job, checkpoint->path);
    return step->event->checkpoint.done && known && known->generation == checkpoint->generation &&
           known->step == checkpoint->step;
}

/* Programs that report may ask their agents for the newest checkpoint at any time. libworker's do
 * not. */
static bool any_reports(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].reports)
            return true;
    return false;
}

void checkpoint_commit(struct step *step)
{
    struct error err = {0};
    struct checkpoint checkpoint = step->event->checkpoint.checkpoint;
    struct job *job = cluster_job(step->cluster, step->event->checkpoint.job);
    if (!job)
        error_set(&err, E_NOT_FOUND, "there is no job '%s'", step->event->checkpoint.job);
    else if (!check_values(&checkpoint, &err) && !is_repeat(step, job))
        (void)check_fence(step, job, &err);
    if (err.code) {
        step_refuse(step, &err);
        return;
    }
    const char **paths = NULL;
    if (step->event->checkpoint.done) {
        if (checkpoint.wall_ms <= 0 || checkpoint.wall_ms > step->wall_ms + CLOCK_AHEAD_MAX_MS)
            checkpoint.wall_ms = step->wall_ms;
        if (!is_repeat(step, job)) {
            forget_surplus(job);
            insert_checkpoint(job, &checkpoint);
            record_checkpoint(step, job, &checkpoint);
            step_store(step, job);
            if (!job->current.joined || any_reports(job))
                step_reassign_group(step, job,
                                    job->current.generation ? &job->current : &job->forming);
        }
        paths = step->event->request ? list_surplus(job) : NULL;
    }
    step_answer_job(step, job, false);
    if (paths)
        step->ret->items[step->ret->count - 1].prune = paths;
}
