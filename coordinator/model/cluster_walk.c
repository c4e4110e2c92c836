/* Find and walk the nodes and jobs of a cluster. */
#include "common/base/str.h"
#include "coordinator/model/cluster_internal.h"
#include "coordinator/model/cluster_walk.h"

enum { WAITING_SEQUENCE_BITS = 48 };

/* "tenant\nkey": neither contains a line end, so two pairs never have one name. */
const char *job_key_name(const char *tenant, const char *key, char ret[JOB_KEY_NAME_MAX])
{
    return str_printf(ret, JOB_KEY_NAME_MAX, "%s\n%s", tenant, key) ? NULL : ret;
}

struct node *cluster_node(const struct cluster *cluster, const char *name)
{
    return strmap_get(&cluster->nodes, name);
}

struct job *cluster_job(const struct cluster *cluster, const char *id)
{
    return strmap_get(&cluster->jobs_by_id, id);
}

struct job *cluster_job_named(const struct cluster *cluster, const char *name)
{
    return strmap_get(&cluster->jobs_by_name, name);
}

struct job *cluster_job_by_key(const struct cluster *cluster, const char *tenant,
                               const char *idempotency_key)
{
    char name[JOB_KEY_NAME_MAX];
    if (!job_key_name(tenant, idempotency_key, name))
        return NULL;
    return strmap_get(&cluster->jobs_by_key, name);
}

uint64_t job_waiting_key(const struct job *job)
{
    return (uint64_t)(SPEC_PRIORITY_LIMIT - job->spec->priority) << WAITING_SEQUENCE_BITS |
           job->sequence;
}

static void *value_of(const struct map_entry *entry)
{
    return entry ? entry->value : NULL;
}

struct node *cluster_first_node(const struct cluster *cluster)
{
    return value_of(strmap_first(&cluster->nodes));
}

struct node *cluster_next_node(const struct cluster *cluster, const struct node *node)
{
    (void)cluster;
    return value_of(map_next(node->entry));
}

struct job *cluster_first_job(const struct cluster *cluster)
{
    return value_of(map_first(&cluster->jobs));
}

struct job *cluster_job_from(const struct cluster *cluster, uint64_t sequence)
{
    return value_of(map_at_least(&cluster->jobs, sequence));
}

struct job *cluster_next_job(const struct cluster *cluster, const struct job *job)
{
    return value_of(map_at_least(&cluster->jobs, job->sequence + 1));
}

struct job *cluster_last_job(const struct cluster *cluster)
{
    return value_of(map_last(&cluster->jobs));
}

struct job *cluster_prev_job(const struct cluster *cluster, const struct job *job)
{
    return value_of(map_previous(map_find(&cluster->jobs, job->sequence)));
}

struct job *cluster_first_active_job(const struct cluster *cluster)
{
    return value_of(map_first(&cluster->active));
}

struct job *cluster_next_active_job(const struct cluster *cluster, const struct job *job)
{
    return value_of(map_at_least(&cluster->active, job->sequence + 1));
}

struct job *cluster_first_begun_job(const struct cluster *cluster)
{
    return value_of(map_first(&cluster->begun));
}

struct job *cluster_next_begun_job(const struct cluster *cluster, const struct job *job)
{
    return value_of(job->begun ? map_next(job->begun)
                               : map_at_least(&cluster->begun, job->sequence + 1));
}

struct job *cluster_first_flexible_job(const struct cluster *cluster)
{
    return value_of(map_first(&cluster->flexible));
}

struct job *cluster_next_flexible_job(const struct cluster *cluster, const struct job *job)
{
    return value_of(job->flexible ? map_next(job->flexible)
                                  : map_at_least(&cluster->flexible, job->sequence + 1));
}

struct job *cluster_first_waiting(const struct cluster *cluster)
{
    return value_of(map_first(&cluster->waiting));
}

struct job *cluster_next_waiting(const struct cluster *cluster, const struct job *job)
{
    return value_of(map_at_least(&cluster->waiting, job_waiting_key(job) + 1));
}

int cluster_nodes_count(const struct cluster *cluster)
{
    return (int)strmap_count(&cluster->nodes);
}

int cluster_jobs_count(const struct cluster *cluster)
{
    return (int)cluster->jobs.count;
}
