#include "coordinator/core/newcomers.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/formation.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

enum node_readiness { NODE_IS_READY, NODE_IS_AWAITED, NODE_IS_LATE };

struct readiness {           /* of the nodes of a forming group */
    enum node_readiness *of; /* by node_rank */
    int count[NODE_IS_LATE + 1];
    bool survivors; /* on the ready nodes is a member of the current group */
};

/* A node is late if a worker that was not there before is, and awaited if only survivors are. */
static void read_nodes(const struct job *job, struct readiness *ret)
{
    const struct group *group = &job->forming;
    *ret = (struct readiness){.of = calloc((size_t)group->nodes + 1, sizeof(*ret->of))};
    insist(ret->of);
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        enum node_readiness *node = &ret->of[group->places[rank].node_rank];
        if (group_has_asked(worker, group->generation))
            continue;
        if (group_rank_of(&job->current, worker->uid) < 0)
            *node = NODE_IS_LATE;
        else if (*node != NODE_IS_LATE)
            *node = NODE_IS_AWAITED;
    }
    for (int node = 0; node < group->nodes; node++)
        ret->count[ret->of[node]]++;
    for (int rank = 0; rank < group->world; rank++)
        if (ret->of[group->places[rank].node_rank] == NODE_IS_READY &&
            group_rank_of(&job->current, group->members[rank]) >= 0)
            ret->survivors = true;
}

static bool survivors_are_enough(const struct job *job)
{
    struct readiness nodes;
    if (!job->forming.generation || !job->forming.open || !job->current.generation)
        return false;
    read_nodes(job, &nodes);
    free(nodes.of);
    return nodes.count[NODE_IS_LATE] > 0 && nodes.count[NODE_IS_AWAITED] == 0 && nodes.survivors &&
           nodes.count[NODE_IS_READY] >= job->spec->nodes_min;
}

bool newcomers_all_start(const struct job *job)
{
    const struct group *group = &job->forming;
    if (!group->generation || group->open || !job->current.generation)
        return false;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        bool is_new = group_rank_of(&job->current, worker->uid) < 0;
        if (is_new &&
            (worker->held || !worker_living(worker) || group_has_asked(worker, group->generation)))
            return false;
    }
    return true;
}

/* A worker that is held back is not started before its time: there is no wait for that. */
static int64_t patience_ends(const struct job *job)
{
    const struct group *group = &job->forming;
    bool held = false;
    for (int rank = 0; rank < group->world; rank++)
        held |= job_worker(job, group->members[rank])->held;
    bool slow = held || job->start_took_ms > NEWCOMER_FAST_MS;
    return group->since_ms + (slow ? 0 : NEWCOMER_PATIENCE_MS);
}

bool newcomers_are_late(const struct job *job, int64_t now_ms)
{
    return survivors_are_enough(job) && now_ms >= patience_ends(job);
}

int64_t newcomers_wake_at(const struct job *job)
{
    return survivors_are_enough(job) ? patience_ends(job) : INT64_MAX;
}

/* The members of the forming group on nodes that are ready, with their ranks, or on those that are
 * not, with none. */
static int members_of(const struct job *job, const struct readiness *nodes, bool ready,
                      struct rank_request *ret)
{
    const struct group *group = &job->forming;
    int count = 0;
    for (int rank = 0; rank < group->world; rank++)
        if ((nodes->of[group->places[rank].node_rank] == NODE_IS_READY) == ready)
            ret[count++] =
                (struct rank_request){.uid = group->members[rank], .rank = ready ? rank : -1};
    return count;
}

void newcomers_set_aside(struct step *step, struct job *job, struct late *ret)
{
    struct readiness nodes;
    size_t world = (size_t)job->forming.world;
    struct rank_request *ready = calloc(world, sizeof(*ready));
    ret->workers = calloc(world, sizeof(*ret->workers));
    insist(ready && ret->workers);
    read_nodes(job, &nodes);
    int count = members_of(job, &nodes, true, ready);
    ret->count = members_of(job, &nodes, false, ret->workers);
    free(nodes.of);
    group_narrow(step, job, ready, count);
    free(ready);
}

static void form_growth(struct step *step, struct job *job, const struct late *late)
{
    const struct group *current = &job->current;
    int count = current->world + late->count;
    struct rank_request *members = calloc((size_t)count, sizeof(*members));
    struct reason reason;
    insist(members);
    for (int rank = 0; rank < current->world; rank++)
        members[rank] = (struct rank_request){.uid = current->members[rank], .rank = rank};
    memcpy(members + current->world, late->workers, sizeof(*members) * (size_t)late->count);
    group_form(step, job, &(struct formation){.kept = members, .kept_count = count});
    reason_set(&reason, REASON_GROWING,
               "%d of %d workers %s not ready yet; training continues until %s", late->count, count,
               late->count == 1 ? "is" : "are", late->count == 1 ? "it is" : "they are");
    step_record(step, "growth", job, NULL, &reason);
    free(members);
}

/* The job may have been scaled down meanwhile. */
void newcomers_form(struct step *step, struct job *job, struct late *late)
{
    int nodes = job->current.nodes + late->count / job->spec->workers_per_node;
    if (nodes <= job->spec->nodes_max)
        form_growth(step, job, late);
    for (int i = 0; i < late->count && nodes > job->spec->nodes_max; i++)
        worker_stop(step, job, job_worker(job, late->workers[i].uid));
    free(late->workers);
}
