#include "coordinator/core/evict.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/group.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/runtime.h"
#include "coordinator/core/spare.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/gang.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

/* One gang loses `count` nodes for one job. */
static void evict_nodes(struct step *step, const struct eviction *evictions, int count)
{
    char why[64];
    struct job *job = evictions->job;
    struct strmap nodes = {0};
    const char *to = evictions->to->id;
    (void)str_printf(why, sizeof(why), "job %s waits for it", to);
    for (int i = 0; i < count; i++)
        insist(!strmap_set(&nodes, evictions[i].node->name, job, NULL));
    for (int i = 0; i < job->workers_count; i++) {
        struct worker *worker = &job->workers[i];
        if (!worker_living(worker) || !strmap_get(&nodes, worker->node))
            continue;
        if (worker->spare) {
            spare_end(step, job, worker, why);
            continue;
        }
        worker->leaving = true;
        (void)str_copy(job->beneficiary, sizeof(job->beneficiary), to);
    }
    strmap_fini(&nodes);
    step_settle(step, job);
}

/* Its current group stays unchanged, because a checkpoint saved now still counts. Nodes that it was
 * losing before are part of it. `to` NULL: no job gets the nodes. */
static void end_with_grace(struct step *step, struct job *job, const struct job *to,
                           const struct reason *reason)
{
    (void)str_copy(job->beneficiary, sizeof(job->beneficiary), to ? to->id : "");
    for (int i = 0; i < job->workers_count; i++)
        worker_stop(step, job, &job->workers[i]);
    step_reassign_group(step, job, &job->forming);
    group_clear(step->cluster, job, &job->forming);
    job->stop_deadline_ms = step->now_ms + job->spec->grace_ms + STOP_SLACK_MS;
    job_set_state(step, job, JOB_PREEMPTING, reason);
}

static void evict_gang(struct step *step, const struct eviction *eviction)
{
    struct reason reason;
    struct job *job = eviction->job;
    const struct job *to = eviction->to;
    char id[REASON_NAME_MAX], name[REASON_NAME_MAX];
    reason_set(&reason, REASON_PREEMPTED, "preempted by job %s (%s), which %s",
               reason_name_job(to, to->id, id), reason_name_job(to, to->spec->name, name),
               eviction->reclaimed ? "its tenant is guaranteed" : "has a higher priority");
    reason_hint(&reason, eviction->returns
                             ? "it continues from its last checkpoint at once, with fewer nodes"
                             : "it continues from its last checkpoint when there is room");
    end_with_grace(step, job, to, &reason);
}

void evict_all(struct step *step)
{
    struct reason reason;
    reason_set(&reason, REASON_HALTED, "the cluster is being stopped");
    reason_hint(&reason, "it continues from its last checkpoint when the cluster is up again");
    cluster_halt(step->cluster);
    for (struct job *job = cluster_first_begun_job(step->cluster); job;
         job = cluster_next_begun_job(step->cluster, job))
        if (job->state == JOB_STARTING || job->state == JOB_RUNNING || job->state == JOB_REFORMING)
            end_with_grace(step, job, NULL, &reason);
}

static bool is_same_gang(const struct eviction *a, const struct eviction *b)
{
    return a->node && b->node && a->job == b->job && a->to == b->to;
}

void evict_perform(struct step *step, const struct eviction *evictions, int count)
{
    for (int i = 0, end; i < count; i = end) {
        end = i + 1;
        if (evictions[i].moves) { /* one at a time: each finds its planned new place */
            evictions[i].job->moved_at_ms = step->now_ms;
            evict_nodes(step, &evictions[i], 1);
            return;
        }
        while (end < count && is_same_gang(&evictions[i], &evictions[end]))
            end++;
        if (evictions[i].node)
            evict_nodes(step, &evictions[i], end - i);
        else
            evict_gang(step, &evictions[i]);
    }
}

/* Programs that save when they are asked to stop often exit with 0: only the step count shows
 * whether one has finished. */
static bool has_finished_all_steps(const struct job *job)
{
    return job->total_steps > 0 && job->step >= job->total_steps &&
           group_all_finished(job, &job->current);
}

void evict_settle(struct step *step, struct job *job)
{
    struct reason reason = job->reason;
    if (job_living_workers(job) > 0) {
        if (job->stop_deadline_ms && step->now_ms >= job->stop_deadline_ms)
            job->stop_deadline_ms = 0;
        return;
    }
    job->stop_deadline_ms = 0;
    memcpy(job->preempted_by, job->beneficiary, sizeof(job->preempted_by));
    job->preempted_wall_ms = step->wall_ms;
    job->beneficiary[0] = 0;
    if (has_finished_all_steps(job)) {
        group_finished_reason(&job->current, &reason);
        job_stop(step, job, JOB_SUCCEEDED, &reason);
        return;
    }
    group_clear(step->cluster, job, &job->current);
    runtime_pause(step, job);
    job->backoff_until_ms = step->now_ms;
    job_set_state(step, job, JOB_QUEUED, &reason);
    step->wants_pass = true;
}
