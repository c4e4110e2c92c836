/* 10,000 gangs of one slot end within a second, each told by a report of its own, while 10,000
 * others wait for their places on 5,000 nodes. Passes over the queue are gathered as the driver
 * does it (coordinator/driver.h): one for all that has arrived, and then none for as long as it
 * took. Told are the passes, the processor time until all have started, and the longest that a
 * report waited for its turn; the peer is a pass after each report, from the first SINGLES.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/scheduler/world.h"
#include "common/base/assert.h"
#include "coordinator/model/cluster_pass.h"
#include "coordinator/model/cluster_walk.h"

enum { NODES = 5000, SLOTS = 2, JOBS = NODES * SLOTS, SINGLES = 50 };

static double now_s(void)
{
    struct timespec time;
    insist(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double used_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static struct job *submit(struct cluster *cluster)
{
    static const char *const command[] = {"train"};
    struct spec *spec;
    struct spec_input input = {.json = "{}",
                               .name = "job",
                               .tenant = "t0",
                               .command = command,
                               .command_count = 1,
                               .nodes_min = 1,
                               .nodes_max = 1,
                               .slots = 1};
    insist(spec_build(&input, &spec, NULL) == 0);
    return world_add_job(cluster, spec);
}

/* What its node says: the gang's worker has ended, the node's others have not. */
static void end(struct cluster *cluster, const struct job *job, bool pass_later)
{
    struct node *node = cluster_node(cluster, job->workers[0].node);
    struct exit_info exit = {0};
    struct worker_report reports[SLOTS * 2];
    struct actions actions;
    int count = 0;
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e)) {
        const struct job *other = e->value;
        const struct worker *worker = &other->workers[other->workers_count - 1];
        insist(count < SLOTS * 2);
        reports[count++] =
            (struct worker_report){.job = other->id,
                                   .uid = worker->uid,
                                   .state = other == job ? WORKER_EXITED : WORKER_STARTING,
                                   .endpoint = "",
                                   .start_error = "",
                                   .exit = &exit};
    }
    struct event event = {.kind = EVENT_NODE_REPORT,
                          .now_ms = 3000,
                          .wall_ms = 3000,
                          .pass_later = pass_later,
                          .node_report = {.node = node->name,
                                          .incarnation = 1,
                                          .sequence = node->last_report + 1,
                                          .workers = reports,
                                          .workers_count = count}};
    actions_init(&actions);
    coordinator_step(cluster, &event, &actions);
    actions_fini(&actions);
}

static void pass(struct cluster *cluster)
{
    struct event event = {.kind = EVENT_PASS, .now_ms = 3000, .wall_ms = 3000};
    struct actions actions;
    actions_init(&actions);
    coordinator_step(cluster, &event, &actions);
    actions_fini(&actions);
}

/* All slots are taken, and as many gangs wait. ret_running: those who have them. */
static struct cluster *full(struct job **ret_running)
{
    struct cluster *cluster = cluster_new(1);
    world_add_nodes(cluster, NODES, SLOTS);
    for (int i = 0; i < JOBS; i++)
        ret_running[i] = submit(cluster);
    (void)world_pass(cluster, 1000);
    for (int i = 0; i < JOBS; i++)
        world_run(cluster, ret_running[i]);
    for (int i = 0; i < JOBS; i++)
        (void)submit(cluster);
    (void)world_pass(cluster, 2000);
    return cluster;
}

static struct job *at(struct job **running, int number)
{
    return running[number * 7919 % JOBS]; /* their nodes are told of in no order */
}

static double single_s(struct job **running)
{
    struct cluster *cluster = full(running);
    double begun_s = used_s();
    for (int i = 0; i < SINGLES; i++)
        end(cluster, at(running, i), false);
    double took_s = used_s() - begun_s;
    cluster_free(cluster);
    return took_s / SINGLES * JOBS;
}

struct burst {
    uint64_t passes;
    double used_s, waited_s, done_s;
};

static void gathered(struct job **running, struct burst *ret)
{
    struct cluster *cluster = full(running);
    uint64_t before = cluster_passes(cluster);
    double begun_s = now_s(), begun_used_s = used_s(), pass_after_s = 0;
    *ret = (struct burst){0};
    for (int told = 0; told < JOBS || cluster_wants_pass(cluster);) {
        double at_s = now_s() - begun_s, due_s = (double)told / JOBS;
        if (told < JOBS && due_s <= at_s) {
            ret->waited_s = at_s - due_s > ret->waited_s ? at_s - due_s : ret->waited_s;
            end(cluster, at(running, told++), true);
        } else if (cluster_wants_pass(cluster) && at_s >= pass_after_s) {
            pass(cluster);
            double done_s = now_s() - begun_s;
            pass_after_s = done_s + (done_s - at_s);
        }
    }
    ret->done_s = now_s() - begun_s;
    ret->used_s = used_s() - begun_used_s;
    ret->passes = cluster_passes(cluster) - before;
    for (int i = 0; i < JOBS; i++)
        insist(running[i]->state == JOB_SUCCEEDED);
    insist(!cluster_first_waiting(cluster));
    cluster_free(cluster);
}

static void print(const char *metric, double ours, double peer, const char *unit)
{
    (void)printf("{\"bench\":\"scheduler\",\"metric\":\"burst_%s\",\"ours\":%.4f,\"peer\":%.4f,"
                 "\"peer_name\":\"a pass each\",\"ratio\":%.1f,\"unit\":\"%s\",\"target\":null}\n",
                 metric, ours, peer, peer / ours, unit);
}

int main(void)
{
    struct job **running = calloc(JOBS, sizeof(struct job *));
    struct burst burst;
    insist(running);
    double alone_s = single_s(running);
    gathered(running, &burst);
    print("passes_of_10k_ends", (double)burst.passes, JOBS, "passes");
    print("processor_of_10k_ends", burst.used_s, alone_s, "s");
    (void)fprintf(stderr, "all have started after %.2f s; a report waited %.3f s at most\n",
                  burst.done_s, burst.waited_s);
    free(running);
    return 0;
}
