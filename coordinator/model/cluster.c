#include "coordinator/model/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/model/cluster_internal.h"
#include "coordinator/model/cluster_timers.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/tenant.h"

struct cluster *cluster_new(uint64_t seed)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));
    insist(cluster);
    cluster->next_sequence = 1;
    rng_seed(&cluster->rng, seed);
    tenant_add(cluster, "default");
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return;
    heap_fini(&cluster->job_timers);
    heap_fini(&cluster->node_timers);
    for (struct map_entry *e = map_first(&cluster->jobs); e; e = map_next(e))
        job_free(e->value);
    for (struct map_entry *e = strmap_first(&cluster->nodes); e; e = map_next(e))
        node_free(e->value);
    map_fini(&cluster->jobs);
    map_fini(&cluster->active);
    map_fini(&cluster->begun);
    map_fini(&cluster->flexible);
    map_fini(&cluster->waiting);
    strmap_fini(&cluster->nodes);
    strmap_fini(&cluster->let_in);
    strmap_fini(&cluster->jobs_by_id);
    strmap_fini(&cluster->jobs_by_name);
    strmap_fini(&cluster->jobs_by_key);
    strmap_fini(&cluster->jobs_by_folder);
    strmap_fini(&cluster->ports);
    tenants_fini(cluster);
    free(cluster);
}

uint64_t cluster_next_sequence(struct cluster *cluster)
{
    return cluster->next_sequence++;
}

void cluster_skip_sequences(struct cluster *cluster, uint64_t first)
{
    if (cluster->next_sequence < first)
        cluster->next_sequence = first;
}

void cluster_remove_job(struct cluster *cluster, struct job *job)
{
    char key[JOB_KEY_NAME_MAX];
    insist(job_state_ended(job->state));
    never(job->waiting || map_find(&cluster->active, job->sequence));
    if (cluster_job_named(cluster, job->spec->name) == job) {
        struct job *older = cluster_prev_job(cluster, job);
        while (older && strcmp(older->spec->name, job->spec->name) != 0)
            older = cluster_prev_job(cluster, older);
        strmap_remove(&cluster->jobs_by_name, job->spec->name);
        if (older)
            insist(!strmap_set(&cluster->jobs_by_name, older->spec->name, older, NULL));
    }
    if (job->idempotency_key[0] && job_key_name(job->spec->tenant, job->idempotency_key, key) &&
        strmap_get(&cluster->jobs_by_key, key) == job)
        strmap_remove(&cluster->jobs_by_key, key);
    strmap_remove(&cluster->jobs_by_id, job->id);
    tenant_count_job(job, -1);
    folder_remove(cluster, job);
    map_remove(&cluster->jobs, job->sequence);
    job_free(job);
}

struct rng *cluster_rng(struct cluster *cluster)
{
    return &cluster->rng;
}

static int index_job(struct cluster *cluster, struct job *job)
{
    char key[JOB_KEY_NAME_MAX];
    if (map_set(&cluster->jobs, job->sequence, job, NULL) ||
        strmap_set(&cluster->jobs_by_id, job->id, job, NULL))
        return E_RESOURCE_EXHAUSTED;
    const struct job *namesake = cluster_job_named(cluster, job->spec->name);
    if ((!namesake || namesake->sequence < job->sequence) &&
        strmap_set(&cluster->jobs_by_name, job->spec->name, job, NULL))
        return E_RESOURCE_EXHAUSTED;
    if (job->idempotency_key[0] && job_key_name(job->spec->tenant, job->idempotency_key, key) &&
        strmap_set(&cluster->jobs_by_key, key, job, NULL))
        return E_RESOURCE_EXHAUSTED;
    return 0;
}

static void map_follow(struct map *map, struct job *job, bool among, struct map_entry **entry)
{
    if (among == (*entry != NULL))
        return;
    if (among)
        insist(!map_set(map, job->sequence, job, NULL));
    else
        map_remove(map, job->sequence);
    *entry = among ? map_find(map, job->sequence) : NULL;
}

static void job_follow_state(struct cluster *cluster, struct job *job)
{
    bool begun = job->state != JOB_QUEUED && !job_state_ended(job->state);
    bool flexible = job->spec->nodes_max > job->spec->nodes_min || job->spec->spares > 0;
    map_follow(&cluster->begun, job, begun, &job->begun);
    map_follow(&cluster->flexible, job, begun && flexible, &job->flexible);
}

int cluster_add_job(struct cluster *cluster, struct job *job, struct error *err)
{
    if (cluster->jobs.count >= CLUSTER_JOBS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "the cluster can have at most %d jobs",
                         CLUSTER_JOBS_MAX);
    if (cluster_job(cluster, job->id) || map_find(&cluster->jobs, job->sequence))
        return error_set(err, E_ALREADY_EXISTS, "job '%s' exists", job->id);
    if (!cluster_tenant(cluster, job->spec->tenant) &&
        strmap_count(&cluster->tenants) >= TENANTS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "the cluster can have at most %d tenants",
                         TENANTS_MAX);
    insist(!index_job(cluster, job));
    folder_add(cluster, job);
    job->tenant = tenant_add(cluster, job->spec->tenant);
    job->spec_bytes = job->spec->json ? (int64_t)strlen(job->spec->json) : 0;
    tenant_count_job(job, 1);
    if (job->sequence >= cluster->next_sequence)
        cluster->next_sequence = job->sequence + 1;
    group_derive(job, &job->current);
    group_derive(job, &job->forming);
    if (job_state_ended(job->state))
        return 0;
    insist(!map_set(&cluster->active, job->sequence, job, NULL));
    job_follow_state(cluster, job);
    group_take_port(cluster, job, &job->current);
    group_take_port(cluster, job, &job->forming);
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].state != WORKER_EXITED)
            worker_take(cluster, job, &job->workers[i]);
    return 0;
}

void cluster_job_moved(struct cluster *cluster, struct job *job, bool waiting)
{
    job_follow_state(cluster, job);
    if (job_state_ended(job->state)) {
        never(waiting);
        if (map_remove(&cluster->active, job->sequence))
            tenant_end_job(job);
        cluster_wake_job(cluster, job, INT64_MAX);
        group_give_port(cluster, job, &job->current);
        group_give_port(cluster, job, &job->forming);
    }
    if (waiting == job->waiting)
        return;
    if (waiting) {
        insist(!map_set(&cluster->waiting, job_waiting_key(job), job, NULL));
        insist(!map_set(&job->tenant->waiting, job_waiting_key(job), job, NULL));
    } else {
        map_remove(&cluster->waiting, job_waiting_key(job));
        map_remove(&job->tenant->waiting, job_waiting_key(job));
    }
    job->waiting = waiting;
}
