#include "coordinator/core/dirty_set.h"

#include "common/base/assert.h"

static void add_job(struct map *map, struct job *job)
{
    insist(!map_set(map, job->sequence, job, NULL));
}

void step_revisit(struct step *step, struct job *job)
{
    if (!job_state_ended(job->state))
        add_job(&step->to_settle, job);
}

void step_settle(struct step *step, struct job *job)
{
    step_revisit(step, job);
    add_job(&step->to_store, job);
}

void step_store(struct step *step, struct job *job)
{
    add_job(&step->to_store, job);
}

void step_show(struct step *step, struct job *job)
{
    add_job(&step->to_show, job);
}

void step_store_node(struct step *step, struct node *node)
{
    insist(!strmap_set(&step->nodes, node->name, node, NULL));
}

void step_reassign_node(struct step *step, const char *node)
{
    insist(!strmap_set(&step->reassigned, node, step->cluster, NULL));
}

void step_reassign_group(struct step *step, const struct job *job, const struct group *group)
{
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (worker && worker->state != WORKER_EXITED && !worker->held)
            step_reassign_node(step, worker->node);
    }
}

/* A gang that is still forming may be what hangs, so it is looked at as well. */
void step_request_stacks(struct step *step, struct job *job)
{
    bool later = step->wall_ms > job->stacks_wall_ms; /* wall time may jump back */
    job->stacks_wall_ms = later ? step->wall_ms : job->stacks_wall_ms + 1;
    step_reassign_group(step, job, &job->current);
    step_reassign_group(step, job, &job->forming);
}
