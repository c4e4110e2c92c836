#include "coordinator/core/formation.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/model/gang.h"

static uint64_t add_newcomer(struct step *step, struct job *job, const struct newcomer *newcomer,
                             uint64_t generation, bool held)
{
    struct worker worker = {
        .uid = job->next_uid++,
        .state = WORKER_ASSIGNED,
        .held = held,
        .slot = newcomer->slot,
        .local_rank = newcomer->local_rank,
        .born = generation,
    };
    (void)str_copy(worker.node, sizeof(worker.node), newcomer->node);
    job_add_worker(step->cluster, job, &worker);
    return worker.uid;
}

static void number_members(struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++) {
        struct worker *worker = job_worker(job, group->members[rank]);
        worker->rank = rank;
        worker->generation = group->generation;
    }
}

/* Make the group of these workers, all of which exist, the forming one. */
static void set_forming(struct step *step, struct job *job, const struct rank_request *requests,
                        struct group *group)
{
    group->members = calloc((size_t)group->world, sizeof(*group->members));
    insist(group->members);
    ranks_assign(requests, group->world, group->members);
    const struct worker *first = job_worker(job, group->members[0]);
    (void)str_copy(group->master_node, sizeof(group->master_node), first->node);
    group->master_port = cluster_free_port(step->cluster, cluster_node(step->cluster, first->node));
    step_reassign_group(step, job, &job->forming);
    group_set(step->cluster, job, &job->forming, group);
    number_members(job, &job->forming);
    step_reassign_group(step, job, &job->forming);
    step_settle(step, job);
    free(group->members);
}

void group_form(struct step *step, struct job *job, const struct formation *formation)
{
    int world = formation->kept_count + formation->newcomers_count;
    struct rank_request *requests = calloc((size_t)world, sizeof(*requests));
    struct group group = {.generation = job->next_generation++,
                          .world = world,
                          .open = formation->open,
                          .since_ms = step->now_ms};
    insist(requests);
    for (int i = 0; i < formation->kept_count; i++)
        requests[i] = formation->kept[i];
    for (int i = 0; i < formation->newcomers_count; i++)
        requests[formation->kept_count + i] =
            (struct rank_request){.uid = add_newcomer(step, job, &formation->newcomers[i],
                                                      group.generation, formation->held),
                                  .rank = formation->newcomers[i].rank};
    set_forming(step, job, requests, &group);
    free(requests);
}

void group_narrow(struct step *step, struct job *job, const struct rank_request *kept, int count)
{
    struct group group = {.generation = job->forming.generation,
                          .world = count,
                          .open = job->forming.open,
                          .since_ms = job->forming.since_ms};
    set_forming(step, job, kept, &group);
}
