#include "coordinator/rehearsal/sim_agent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/str.h"
#include "coordinator/model/assignment.h"

enum { SIGNAL_TERM = 15 };

struct following {
    struct sim_agent *node;
    int64_t now_ms, start_ms;
};

static struct sim_worker *find_worker(struct sim_agent *node, const char *job, uint64_t uid)
{
    for (int i = 0; i < node->count; i++)
        if (node->workers[i].uid == uid && strcmp(node->workers[i].job, job) == 0)
            return &node->workers[i];
    return NULL;
}

static struct sim_worker *add_worker(struct sim_agent *node, const char *job, uint64_t uid)
{
    node->workers =
        array_reserve(node->workers, node->count, &node->capacity, sizeof(*node->workers));
    struct sim_worker *worker = &node->workers[node->count++];
    *worker = (struct sim_worker){.uid = uid};
    (void)str_copy(worker->job, sizeof(worker->job), job);
    return worker;
}

static void follow_assignment(void *arg, const struct assignment *assignment)
{
    struct following *following = arg;
    const char *job = assignment->job->id;
    struct sim_worker *worker = find_worker(following->node, job, assignment->worker->uid);
    if (!worker) {
        worker = add_worker(following->node, job, assignment->worker->uid);
        worker->ready_ms = following->now_ms + following->start_ms;
    }
    worker->named = true;
    worker->wanted = assignment->generation;
    if (assignment->stop && !worker->exited) {
        worker->exited = true;
        worker->exit = (struct exit_info){.signal = SIGNAL_TERM, .wall_ms = following->now_ms};
    }
    if (worker->exited || following->now_ms < worker->ready_ms)
        return;
    if (worker->joined < assignment->generation && (assignment->reform || !worker->joined))
        worker->joining = assignment->generation;
    if (assignment->published && worker->joining == assignment->generation) {
        worker->joined = worker->joining;
        worker->joining = 0;
    }
}

int64_t sim_agent_follow(struct sim_agent *node, const struct cluster *cluster, int64_t now_ms,
                         int64_t start_ms)
{
    struct following following = {.node = node, .now_ms = now_ms, .start_ms = start_ms};
    int64_t next_ms = INT64_MAX;
    int kept = 0;
    for (int i = 0; i < node->count; i++)
        node->workers[i].named = false;
    cluster_assignments(cluster, node->name, follow_assignment, &following);
    for (int i = 0; i < node->count; i++) {
        const struct sim_worker *worker = &node->workers[i];
        if (!worker->named)
            continue; /* no report about it is wanted any more */
        if (!worker->exited && worker->ready_ms > now_ms && worker->ready_ms < next_ms)
            next_ms = worker->ready_ms;
        node->workers[kept++] = *worker;
    }
    node->count = kept;
    return next_ms;
}

void sim_agent_finish(struct sim_agent *node, const char *job, int64_t now_ms)
{
    for (int i = 0; i < node->count; i++) {
        struct sim_worker *worker = &node->workers[i];
        if (worker->exited || strcmp(worker->job, job) != 0)
            continue;
        worker->exited = true;
        worker->exit = (struct exit_info){.wall_ms = now_ms};
    }
}

void sim_agent_report(const struct sim_agent *node, struct worker_report *ret)
{
    for (int i = 0; i < node->count; i++) {
        const struct sim_worker *worker = &node->workers[i];
        ret[i] = (struct worker_report){.job = worker->job,
                                        .uid = worker->uid,
                                        .state = worker->exited   ? WORKER_EXITED
                                                 : worker->joined ? WORKER_JOINED
                                                                  : WORKER_STARTING,
                                        .pid = 1,
                                        .generation = worker->joined,
                                        .joining = worker->joining,
                                        .endpoint = "rehearsal",
                                        .aware = true,
                                        .exit = worker->exited ? &worker->exit : NULL,
                                        .start_error = "",
                                        .loss = NAN,
                                        .tokens_per_second = NAN};
    }
}

void sim_agent_fini(struct sim_agent *node)
{
    free(node->workers);
}
