#include "bench/scheduler/world.h"

#include <stdlib.h>
#include <time.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/gang.h"
#include "coordinator/model/tenant.h"

static double now_s(void)
{
    struct timespec time;
    insist(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void world_add_nodes(struct cluster *cluster, int count, int slots)
{
    for (int i = 0; i < count; i++) {
        struct node *node = calloc(1, sizeof(*node));
        insist(node);
        (void)str_printf(node->name, sizeof(node->name), "n%05d", i);
        (void)str_printf(node->address, sizeof(node->address), "10.0.%d.%d", i / 250, i % 250);
        node->state = NODE_READY;
        node->incarnation = 1;
        node->slots = slots;
        node->cpus_milli = 64000;
        node->memory_bytes = INT64_C(1) << 40;
        node->port_first = 20000;
        node->port_last = 20031;
        (void)str_copy(node->labels[0].key, sizeof(node->labels[0].key), "rack");
        (void)str_printf(node->labels[0].value, sizeof(node->labels[0].value), "r%03d",
                         i / WORLD_RACK);
        node->labels_count = 1;
        insist(cluster_add_node(cluster, node, NULL) == 0);
    }
}

struct job *world_add_job(struct cluster *cluster, struct spec *spec)
{
    struct job *job = calloc(1, sizeof(*job));
    insist(job);
    job->sequence = cluster_next_sequence(cluster);
    (void)str_printf(job->id, sizeof(job->id), "j%llu", (unsigned long long)job->sequence);
    job->spec = spec;
    job->next_generation = job->next_uid = 1;
    insist(cluster_add_job(cluster, job, NULL) == 0);
    cluster_job_moved(cluster, job, true);
    return job;
}

double world_pass(struct cluster *cluster, int64_t now_ms)
{
    struct tenant facts = {.weight = 1};
    struct actions actions;
    struct event event = {.kind = EVENT_TENANT_SET, .now_ms = now_ms, .wall_ms = now_ms};
    (void)str_copy(facts.name, sizeof(facts.name), "t0");
    event.tenant_set.facts = &facts;
    actions_init(&actions);
    double start_s = now_s();
    coordinator_step(cluster, &event, &actions);
    double took_s = now_s() - start_s;
    actions_fini(&actions);
    return took_s;
}

void world_run(struct cluster *cluster, struct job *job)
{
    group_clear(cluster, job, &job->current);
    group_move(&job->current, &job->forming);
    job->current.published = job->current.joined = true;
    for (int i = 0; i < job->workers_count; i++) {
        job->workers[i].state = WORKER_JOINED;
        job->workers[i].aware = true;
        job->workers[i].joined = job->current.generation;
    }
    job->state = JOB_RUNNING;
    cluster_job_moved(cluster, job, false);
}

void world_end(struct cluster *cluster, struct job *job, bool waits)
{
    for (int i = 0; i < job->workers_count; i++)
        job_worker_gone(cluster, job, &job->workers[i]);
    group_clear(cluster, job, &job->current);
    group_clear(cluster, job, &job->forming);
    job->state = waits ? JOB_QUEUED : JOB_SUCCEEDED;
    job->ended_wall_ms = waits ? 0 : 1;
    cluster_job_moved(cluster, job, waits);
}
