#include "coordinator/core/scale.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/job_size.h"
#include "coordinator/core/resize.h"
#include "coordinator/model/reason.h"
#include "coordinator/scheduler/possible.h"
#include "coordinator/scheduler/victim.h"

static void release_surplus_nodes(struct step *step, struct job *job)
{
    const struct group *group = &job->current;
    int beyond = group->nodes - job->nodes_max;
    for (int rank = 0; rank < group->world; rank++)
        if (group->places[rank].node_rank >= group->nodes - beyond)
            job_worker(job, group->members[rank])->leaving = true;
    (void)str_copy(job->beneficiary, sizeof(job->beneficiary), job->id);
    step_settle(step, job);
}

void scale_settle(struct step *step, struct job *job)
{
    if (!job->nodes_max || job->state != JOB_RUNNING || job->current.nodes <= job->nodes_max ||
        job->beneficiary[0])
        return;
    if (job_may_shrink(job))
        release_surplus_nodes(step, job);
    else if (resize_restarts(job))
        resize_shrink(step, job);
}

/* The size of a started job is fixed; before its start another one may be chosen. */
static bool is_fixed(const struct job *job, int min, int max)
{
    bool same = min == max && max == job->spec->nodes_max;
    bool begun = job->started_wall_ms || job->state != JOB_QUEUED;
    return job->spec->elastic == ELASTIC_OFF && !same && (begun || min != max);
}

static int check_scale(struct step *step, const struct job *job, struct error *err)
{
    int min = step->event->job_scale.nodes_min, max = step->event->job_scale.nodes_max;
    if (!job) {
        error_set(err, E_NOT_FOUND, "there is no job '%s'", step->event->job_scale.id);
        error_hint(err, "`muster ps` lists them");
    } else if (job_state_ended(job->state) || job->state == JOB_STOPPING) {
        bool has = job->state == JOB_SUCCEEDED || job->state == JOB_FAILED;
        error_set(err, E_FAILED_PRECONDITION, "job %s %s %s", job->id, has ? "has already" : "is",
                  job_state_name(job->state));
    } else if (min < 1 || max < min || max > SPEC_NODES_MAX) {
        error_set(err, E_INVALID_ARGUMENT, "%d..%d is no range of nodes", min, max);
        error_field(err, "nodes");
        error_hint(err, "at least 1, min not above max, at most %d", SPEC_NODES_MAX);
    } else if (job->spec->mesh_fixed > 0 && spec_world(job->spec, min) % job->spec->mesh_fixed) {
        error_set(err, E_INVALID_ARGUMENT,
                  "nodes.min %d: its %d worker%s cannot be divided by cp x tp x pp = %d", min,
                  spec_world(job->spec, min), str_plural(spec_world(job->spec, min)),
                  job->spec->mesh_fixed);
        error_field(err, "nodes.min");
    } else if (job->spec->world_max && spec_world(job->spec, max) > job->spec->world_max) {
        error_set(err, E_INVALID_ARGUMENT, "%d workers: libworker connects %d at most",
                  spec_world(job->spec, max), job->spec->world_max);
        error_field(err, "nodes.max");
    } else if (is_fixed(job, min, max)) {
        error_set(err, E_FAILED_PRECONDITION, "job %s has a fixed size (elastic: off)", job->id);
        error_hint(err, "submit it again with elastic: restart, or in_place, to change its size");
    }
    return err->code;
}

void job_scale(struct step *step)
{
    struct error err = {0};
    struct reason reason;
    struct job *job = cluster_job(step->cluster, step->event->job_scale.id);
    if (check_scale(step, job, &err)) {
        step_refuse(step, &err);
        return;
    }
    struct spec *wanted =
        spec_resize(job->spec, step->event->job_scale.nodes_min, step->event->job_scale.nodes_max);
    int rc = scheduler_possible(step->cluster, wanted, &err);
    spec_release(wanted);
    if (rc) {
        step_refuse(step, &err);
        return;
    }
    const char *why = step->event->job_scale.reason;
    job->nodes_min = step->event->job_scale.nodes_min;
    job->nodes_max = step->event->job_scale.nodes_max;
    job->grow_after_ms = 0;
    job->grow_failures = 0;
    job->grow_now = true;
    job_size_apply(step, job);
    reason_set(&reason, REASON_SCALED, "%d..%d nodes from now on%s%.300s", job->nodes_min,
               job->nodes_max, why && why[0] ? ": " : "", why ? why : "");
    step_record(step, "scale", job, NULL, &reason);
    step_settle(step, job);
    step->wants_pass = true;
    step_answer_job(step, job, false);
}
