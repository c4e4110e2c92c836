#include "coordinator/core/spare.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/model/gang.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

static bool is_living_spare(const struct worker *worker)
{
    return worker->spare && worker_living(worker);
}

static int count_nodes(const struct job *job)
{
    int workers = 0;
    for (int i = 0; i < job->workers_count; i++)
        workers += is_living_spare(&job->workers[i]);
    return workers / job->spec->workers_per_node;
}

static void record_spare(struct step *step, const struct job *job, const char *node,
                         const char *what)
{
    struct reason reason;
    reason_set(&reason, REASON_SPARE, "node %s %s", node, what);
    (void)str_copy(reason.node, sizeof(reason.node), node);
    step_record(step, "spare", job, node, &reason);
}

/* Its slots are free; the entry is forgotten with the next group. */
static void release_spare(struct step *step, struct job *job, struct worker *worker)
{
    worker->exit = (struct exit_info){.signal = 15, .wall_ms = step->wall_ms};
    job_worker_gone(step->cluster, job, worker);
    step_settle(step, job);
    step->wants_pass = true;
}

void spare_end(struct step *step, struct job *job, struct worker *worker, const char *why)
{
    char what[200];
    if (worker->local_rank == 0) {
        (void)str_printf(what, sizeof(what), "is kept no longer: %.160s", why);
        record_spare(step, job, worker->node, what);
    }
    release_spare(step, job, worker);
}

static bool may_stay(const struct step *step, const struct worker *worker)
{
    const struct node *node = cluster_node(step->cluster, worker->node);
    return node && !node->want_drain && node_usable(node);
}

void spare_settle(struct step *step, struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (is_living_spare(&job->workers[i]) && !may_stay(step, &job->workers[i]))
            spare_end(step, job, &job->workers[i], "it is being emptied");
}

int spare_wanted(const struct job *job)
{
    bool whole = job->state == JOB_RUNNING && job->current.joined && !job->current.broken &&
                 !job->forming.generation && job->current.nodes >= job->spec->nodes_max &&
                 job->spec->elastic == ELASTIC_IN_PLACE && !job->beneficiary[0];
    return whole && job->spec->spares > 0 ? job->spec->spares - count_nodes(job) : 0;
}

void spare_add(struct step *step, struct job *job, const struct placement *placement)
{
    int each = job->spec->workers_per_node;
    for (int i = 0; i < placement->count; i++) {
        for (int local = 0; local < each; local++) {
            struct worker worker = {.uid = job->next_uid++,
                                    .state = WORKER_ASSIGNED,
                                    .spare = true,
                                    .held = true,
                                    .slot = placement->nodes[i].slots[local],
                                    .local_rank = local,
                                    .rank = -1};
            (void)str_copy(worker.node, sizeof(worker.node), placement->nodes[i].name);
            job_add_worker(step->cluster, job, &worker);
        }
        record_spare(step, job, placement->nodes[i].name, "is kept in case one is lost");
    }
    step_settle(step, job);
}

int spare_find(struct step *step, const struct job *job, int nodes, struct newcomer *ret,
               int *ret_count)
{
    int each = job->spec->workers_per_node, count = 0;
    for (int i = 0; i < job->workers_count && count < nodes * each; i++) {
        const struct worker *worker = &job->workers[i];
        if (!is_living_spare(worker) || !may_stay(step, worker))
            continue;
        ret[count++] = (struct newcomer){.node = cluster_node(step->cluster, worker->node)->name,
                                         .slot = worker->slot,
                                         .local_rank = worker->local_rank,
                                         .rank = -1};
    }
    insist(count % each == 0); /* only whole nodes are kept */
    *ret_count = count;
    return count / each;
}

void spare_use(struct step *step, struct job *job, const struct newcomer *newcomers, int count)
{
    for (int i = 0; i < job->workers_count; i++) {
        struct worker *worker = &job->workers[i];
        for (int n = 0; n < count && is_living_spare(worker); n++)
            if (strcmp(worker->node, newcomers[n].node) == 0 && worker->slot == newcomers[n].slot) {
                if (worker->local_rank == 0)
                    record_spare(step, job, worker->node, "becomes a member");
                release_spare(step, job, worker);
            }
    }
}
