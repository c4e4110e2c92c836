/* A job as a restore leaves it: ready for whatever its workers have done since the backup. */
#include "coordinator/store/document.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "coordinator/store/meta.h"

static bool is_member(const struct group *group, const struct worker *worker)
{
    return group->generation != 0 && group_rank_of(group, worker->uid) >= 0;
}

static void clear_group(struct group *group)
{
    free(group->members);
    free(group->places);
    *group = (struct group){0};
}

/* A worker that was to start may have run and ended since. Count it as started: its node reports
 * whether it exists. Numbers assigned from now on are newer than all assigned meanwhile. */
static void step_over_worker(const struct job *job, struct worker *worker)
{
    if (worker->state == WORKER_EXITED || (worker->spare && job->state == JOB_RUNNING))
        return;
    worker->generation = job->next_generation - 1;
    worker->should_stop |= !is_member(&job->current, worker);
    if (worker->held) { /* agents do not know of it */
        worker->held = false;
        worker->state = WORKER_EXITED;
        worker->exit.signal = 15;
        (void)str_copy(worker->exit.text, sizeof(worker->exit.text),
                       "stopped before it was started");
    } else if (worker->state == WORKER_ASSIGNED) {
        worker->state = WORKER_STARTING;
    }
}

/* A forming group has formed since, or failed. Workers that were to grow the gang end. A gang
 * without another group, or with some members being replaced, restarts. The training group may be
 * another one now: it counts as broken and forms again with its living members. */
static void step_over_groups(struct job *job)
{
    bool begins = job->state == JOB_STARTING || job->state == JOB_REFORMING;
    clear_group(&job->forming);
    if (job->current.joined)
        job->current.broken = true;
    if (!begins)
        return;
    clear_group(&job->current);
    job->state = JOB_RESTARTING;
}

static void step_over(struct job *job)
{
    job->next_generation += RESTORE_SKIPS;
    job->next_uid += RESTORE_SKIPS;
    step_over_groups(job);
    for (int i = 0; i < job->workers_count; i++)
        step_over_worker(job, &job->workers[i]);
}

int document_step_over_job(const char *text, size_t size, struct buf *out, struct error *err)
{
    struct job *job = calloc(1, sizeof(*job));
    if (!job)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    int rc = document_read_job(text, size, job, err);
    if (!rc && !job_state_ended(job->state))
        step_over(job);
    if (!rc)
        rc = document_write_job(job, out, err);
    job_free(job);
    return rc;
}
