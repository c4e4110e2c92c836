#include "coordinator/core/lease.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/node_state.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/cluster_timers.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

void node_grant_lease(struct step *step, struct node *node, int64_t lease_ms)
{
    node->lease_until_ms = step->now_ms + lease_ms;
    node->expiry_postponed = false;
    /* a timer that fires too early is set again */
    if (node->timer.index == 0 || node->timer.key > node->lease_until_ms)
        cluster_wake_node(step->cluster, node, node->lease_until_ms);
}

/* A job with steps that prove that the node's ranks are alive: other members reported them
 * recently, and well after the node fell silent. NULL = there is none. */
static const struct job *find_evidence(const struct step *step, const struct node *node)
{
    int64_t silent_since_ms = node->lease_until_ms - LEASE_MS;
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e)) {
        const struct job *job = e->value;
        bool trains = job->state == JOB_RUNNING && job->current.joined && !job->current.broken &&
                      !(job->forming.generation && job->forming.open);
        bool fresh = job->stepped_at_ms > silent_since_ms + BEAT_MS &&
                     step->now_ms - job->stepped_at_ms <= EVIDENCE_MS;
        for (int rank = 0; trains && fresh && rank < job->current.world; rank++) {
            const struct worker *worker = job_worker(job, job->current.members[rank]);
            if (worker_living(worker) && strcmp(worker->node, node->name) == 0)
                return job;
        }
    }
    return NULL;
}

/* True if its ranks are known to live although its lease has expired. */
static bool keep_by_evidence(struct step *step, struct node *node)
{
    const struct job *job = find_evidence(step, node);
    struct reason reason;
    if (!job)
        return false;
    char id[REASON_NAME_MAX];
    reason_set(&reason, REASON_STILL_TRAINS,
               "silent for longer than its lease, but job %s with ranks there still trains: step "
               "%llu",
               reason_name_job(job, job->id, id), (unsigned long long)job->step);
    reason_hint(&reason, "look at the agent and at the network between it and the coordinator");
    if (node->state == NODE_UNREACHABLE)
        node->reason = reason;
    else
        node_set_state(step, node, NODE_UNREACHABLE, &reason);
    cluster_wake_node(step->cluster, node, step->now_ms + BEAT_MS);
    return true;
}

void node_lease_due(struct step *step, struct node *node)
{
    if (node->state == NODE_LOST)
        return;
    if (node->lease_until_ms > step->now_ms) {
        cluster_wake_node(step->cluster, node, node->lease_until_ms);
        return;
    }
    if (step->now_ms - node->timer.key > PUNCTUAL_MS && !node->expiry_postponed) {
        node->expiry_postponed = true;
        cluster_wake_node(step->cluster, node, step->now_ms + LEASE_GRACE_MS);
        return;
    }
    if (keep_by_evidence(step, node))
        return;
    struct reason reason;
    reason_set(&reason, REASON_LEASE_EXPIRED, "silent for %d ms, longer than its lease", LEASE_MS);
    node_lose(step, node, &reason);
}

bool node_peers_lost_it(const struct node *node)
{
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e)) {
        const struct job *job = e->value;
        for (int i = 0; i < job->workers_count; i++) {
            const struct worker *worker = &job->workers[i];
            if (job->current.generation && worker->lost_in == job->current.generation &&
                worker_living(worker) && strcmp(worker->node, node->name) == 0)
                return true;
        }
    }
    return false;
}

static void lose_workers(struct step *step, struct node *node, struct job *job)
{
    struct exit_info exit = {.lost = true, .wall_ms = step->wall_ms};
    (void)str_printf(exit.text, sizeof(exit.text), "node %s was lost", node->name);
    for (int i = 0; i < job->workers_count; i++) {
        struct worker *worker = &job->workers[i];
        if (worker_living(worker) && strcmp(worker->node, node->name) == 0)
            worker_end(step, job, worker, &exit);
    }
}

void node_lose(struct step *step, struct node *node, const struct reason *reason)
{
    if (node->state == NODE_LOST)
        return;
    node_set_state(step, node, NODE_LOST, reason);
    node->connected = false;
    node->foreign = node->stuck = 0;
    for (struct map_entry *e; (e = map_first(&node->jobs));) {
        struct job *job = e->value;
        lose_workers(step, node, job);
        insist(map_get(&node->jobs, job->sequence) == NULL);
    }
    step_reassign_node(step, node->name);
}
