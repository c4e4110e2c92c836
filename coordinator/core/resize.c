/* Changes the size of gangs that cannot change it in place, because their program does not use
 * libworker or they are `elastic: restart`. They end with grace, and restart from their checkpoint
 * with as many nodes as there are.
 *
 * This costs the work since the checkpoint and the time to start, so it is not done for a node that
 * comes and goes. There must have been room for RESIZE_ROOM_MS, and the gang must have run for
 * RESIZE_SETTLE_MS. Each growth doubles the wait for the next one, unless none was due for
 * GROW_BACKOFF_MAX_MS. What `scale` asks for is done at once.
 *
 * While the gang ends its nodes are free, so it is not done while a waiting job could use them.
 * Until it is due other gangs may use the room for spares; while it ends no spare is added
 * (place.c).
 */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/internal.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/pass.h"

static bool is_finishing(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (worker_finished(&job->workers[i]))
            return true;
    return false;
}

bool resize_restarts(const struct job *job)
{
    bool in_place = job->spec->elastic == ELASTIC_IN_PLACE && job->current.joined;
    return job->state == JOB_RUNNING && job->spec->elastic != ELASTIC_OFF && !in_place &&
           job->current.published && !job->current.broken && !job->forming.generation &&
           !job->gives_to[0] && !is_finishing(job);
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

int64_t resize_due(const struct job *job)
{
    int64_t due_ms = job->room_since_ms + RESIZE_ROOM_MS;
    if (!job->room_since_ms || job->grow_now)
        return job->room_since_ms;
    if (due_ms < job->current.since_ms + RESIZE_SETTLE_MS)
        due_ms = job->current.since_ms + RESIZE_SETTLE_MS;
    return due_ms < job->grow_after_ms ? job->grow_after_ms : due_ms;
}

bool resize_is_due(const struct job *job, int64_t now_ms)
{
    return job->grow_now || (job->room_since_ms && now_ms >= resize_due(job));
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
            !unmet_constraint(node, spec) && node_large_enough(node, spec))
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

static void note_growth(struct step *step, struct job *job)
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

void resize_found_room(struct step *step, struct job *job, int nodes)
{
    struct reason reason;
    if (nodes == 0) {
        job->room_since_ms = 0;
        return;
    }
    if (!job->room_since_ms)
        job->room_since_ms = step->now_ms;
    if (step->now_ms < resize_due(job)) {
        step_look(step, job); /* to be woken at that time */
        return;
    }
    note_growth(step, job);
    job->room_since_ms = 0;
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
    reason_set(&reason, REASON_SCALED,
               "it was scaled down: it starts again from its checkpoint with %d node%s",
               job->nodes_max, str_plural(job->nodes_max));
    restart_again(step, job, &reason);
}
