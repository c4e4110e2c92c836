#include "coordinator/rehearsal/stand_in.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/str.h"

enum { SIGNAL_TERM = 15 };

struct following {
    struct stand_in *node;
    int64_t now_ms, start_ms;
};

static struct stand_in_worker *find(struct stand_in *node, const char *job, uint64_t uid)
{
    for (int i = 0; i < node->count; i++)
        if (node->workers[i].uid == uid && strcmp(node->workers[i].job, job) == 0)
            return &node->workers[i];
    return NULL;
}

static struct stand_in_worker *add(struct stand_in *node, const char *job, uint64_t uid)
{
    node->workers =
        array_reserve(node->workers, node->count, &node->capacity, sizeof(*node->workers));
    struct stand_in_worker *worker = &node->workers[node->count++];
    *worker = (struct stand_in_worker){.uid = uid};
    (void)str_copy(worker->job, sizeof(worker->job), job);
    return worker;
}

static void take(void *arg, const struct assignment *assignment)
{
    struct following *following = arg;
    const char *job = assignment->job->id;
    struct stand_in_worker *worker = find(following->node, job, assignment->worker->uid);
    if (!worker) {
        worker = add(following->node, job, assignment->worker->uid);
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

int64_t stand_in_follow(struct stand_in *node, const struct cluster *cluster, int64_t now_ms,
                        int64_t start_ms)
{
    struct following following = {.node = node, .now_ms = now_ms, .start_ms = start_ms};
    int64_t next_ms = INT64_MAX;
    int kept = 0;
    for (int i = 0; i < node->count; i++)
        node->workers[i].named = false;
    cluster_assignments(cluster, node->name, take, &following);
    for (int i = 0; i < node->count; i++) {
        const struct stand_in_worker *worker = &node->workers[i];
        if (!worker->named)
            continue; /* no report about it is wanted any more */
        if (!worker->exited && worker->ready_ms > now_ms && worker->ready_ms < next_ms)
            next_ms = worker->ready_ms;
        node->workers[kept++] = *worker;
    }
    node->count = kept;
    return next_ms;
}

void stand_in_finish(struct stand_in *node, const char *job, int64_t now_ms)
{
    for (int i = 0; i < node->count; i++) {
        struct stand_in_worker *worker = &node->workers[i];
        if (worker->exited || strcmp(worker->job, job) != 0)
            continue;
        worker->exited = true;
        worker->exit = (struct exit_info){.wall_ms = now_ms};
    }
}

void stand_in_report(const struct stand_in *node, struct worker_report *ret)
{
    for (int i = 0; i < node->count; i++) {
        const struct stand_in_worker *worker = &node->workers[i];
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

void stand_in_fini(struct stand_in *node)
{
    free(node->workers);
}
