#include "coordinator/core/resize.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/restart.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/scheduler/filter.h"

bool resize_restarts(const struct job *job)
{
    bool in_place = job->spec->elastic == ELASTIC_IN_PLACE && job->current.joined;
    return job->state == JOB_RUNNING && job->spec->elastic != ELASTIC_OFF && !in_place &&
           job->current.published && !job->current.broken && !job->forming.generation &&
           !job->beneficiary[0] && !job_is_finishing(job);
}

bool resize_may_grow(const struct job *job)
{
    return job->current.nodes < job->spec->nodes_max && resize_restarts(job);
}

int resize_least(const struct job *job)
{
    int lacks = job->nodes_min - job->current.nodes; /* of the size that scale asked for */
    return lacks > 1 ? lacks : 1;
}

int64_t resize_silence_ends(const struct job *job)
{
    const struct group *group = &job->current;
    int64_t last_ms = group->since_ms;
    if (!resize_restarts(job) || job->spec->elastic != ELASTIC_IN_PLACE)
        return 0;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (!worker_living(worker) || (worker->reports && !worker->aware))
            return 0;
        if (worker->started_ms > last_ms)
            last_ms = worker->started_ms;
    }
    return last_ms + FIRST_WORD_MS;
}

static int64_t later(int64_t a_ms, int64_t b_ms)
{
    return a_ms > b_ms ? a_ms : b_ms;
}

int64_t resize_due(const struct job *job)
{
    int64_t due_ms = job->capacity_since_ms + RESIZE_CAPACITY_MS;
    if (!job->capacity_since_ms)
        return 0;
    if (job->grow_now)
        return later(job->capacity_since_ms, resize_silence_ends(job));
    if (due_ms < job->current.since_ms + RESIZE_SETTLE_MS)
        due_ms = job->current.since_ms + RESIZE_SETTLE_MS;
    return later(later(due_ms, job->grow_after_ms), resize_silence_ends(job));
}

bool resize_is_due(const struct job *job, int64_t now_ms)
{
    bool wanted = job->grow_now || job->capacity_since_ms;
    return wanted && now_ms >= later(resize_due(job), resize_silence_ends(job));
}

bool resize_under_way(const struct job *job)
{
    return job->state == JOB_RESTARTING &&
           strcmp(job->reason.kind, reason_name(REASON_GROWING)) == 0;
}

static bool could_run_there(const struct step *step, const struct job *job, const struct spec *spec)
{
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        const struct node *node = cluster_node(step->cluster, worker->node);
        if (worker->local_rank == 0 && worker_living(worker) && node &&
            !node_unmet_constraint(node, spec) && node_large_enough(node, spec))
            return true;
    }
    return false;
}

bool resize_is_safe(const struct step *step, const struct job *job, const struct pass *pass)
{
    for (int i = 0; i < pass->refusals_count; i++)
        if (could_run_there(step, job, pass->refusals[i].spec))
            return false;
    return pass->refusals_count < PASS_REFUSALS_MAX;
}

static void count_growth(struct step *step, struct job *job)
{
    int64_t delay_ms = RESIZE_SETTLE_MS;
    if (step->now_ms - job->grow_after_ms >= GROW_BACKOFF_MAX_MS)
        job->grow_failures = 0;
    for (int i = 0; i < job->grow_failures && delay_ms < GROW_BACKOFF_MAX_MS; i++)
        delay_ms *= 2;
    job->grow_failures++;
    job->grow_after_ms =
        step->now_ms + (delay_ms < GROW_BACKOFF_MAX_MS ? delay_ms : GROW_BACKOFF_MAX_MS);
}

void resize_note_capacity(struct step *step, struct job *job, int nodes)
{
    struct reason reason;
    if (nodes == 0) {
        job->capacity_since_ms = 0;
        return;
    }
    if (!job->capacity_since_ms)
        job->capacity_since_ms = step->now_ms;
    if (step->now_ms < resize_due(job)) {
        step_revisit(step, job); /* to be woken at that time */
        return;
    }
    count_growth(step, job);
    job->capacity_since_ms = 0;
    job->grow_now = false;
    reason_set(&reason, REASON_GROWING,
               "%d more node%s free: it starts again from its checkpoint with %d", nodes,
               nodes == 1 ? " is" : "s are", job->current.nodes + nodes);
    step_record(step, "growth", job, NULL, &reason);
    restart_again(step, job, &reason);
}

void resize_shrink(struct step *step, struct job *job)
{
    struct reason reason;
    if (step->now_ms < resize_silence_ends(job))
        return;
    reason_set(&reason, REASON_SCALED,
               "it was scaled down: it starts again from its checkpoint with %d node%s",
               job->nodes_max, str_plural(job->nodes_max));
    restart_again(step, job, &reason);
}
