#include "coordinator/model/tenant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_internal.h"

struct tenant *cluster_tenant(const struct cluster *cluster, const char *name)
{
    return strmap_get(&cluster->tenants, name);
}

static struct tenant *tenant_of(const struct map_entry *entry)
{
    return entry ? entry->value : NULL;
}

struct tenant *cluster_first_tenant(const struct cluster *cluster)
{
    return tenant_of(strmap_first(&cluster->tenants));
}

struct tenant *cluster_next_tenant(const struct cluster *cluster, const struct tenant *tenant)
{
    return tenant_of(map_next(strmap_find(&cluster->tenants, tenant->name)));
}

struct tenant *tenant_add(struct cluster *cluster, const char *name)
{
    struct tenant *tenant = cluster_tenant(cluster, name);
    if (tenant)
        return tenant;
    tenant = calloc(1, sizeof(*tenant));
    insist(tenant);
    (void)str_copy(tenant->name, sizeof(tenant->name), name);
    tenant->weight = 1;
    tenant->use_at_ms = cluster->now_ms;
    insist(!strmap_set(&cluster->tenants, name, tenant, NULL));
    return tenant;
}

void tenant_count_job(const struct job *job, int by)
{
    struct tenant *tenant = job->tenant;
    bool ended = job_state_ended(job->state);
    *(ended ? &tenant->ended_jobs : &tenant->active_jobs) += by;
    *(ended ? &tenant->ended_spec_bytes : &tenant->active_spec_bytes) += by * job->spec_bytes;
    never(tenant->ended_jobs < 0 || tenant->active_jobs < 0);
    never(tenant->ended_spec_bytes < 0 || tenant->active_spec_bytes < 0);
}

void tenant_end_job(const struct job *job)
{
    struct tenant *tenant = job->tenant;
    tenant->active_jobs--;
    tenant->active_spec_bytes -= job->spec_bytes;
    tenant_count_job(job, 1);
}

static int refuse_fact(const char *field, const char *hint, struct error *err)
{
    error_set(err, E_INVALID_ARGUMENT, "%s of a tenant is out of range", field);
    error_field(err, "%s", field);
    error_hint(err, "%s", hint);
    return E_INVALID_ARGUMENT;
}

int cluster_set_tenant(struct cluster *cluster, const struct tenant *facts, struct error *err)
{
    if (facts->name[0] == 0)
        return refuse_fact("name", "1 to 63 bytes", err);
    if (facts->weight < 1 || facts->weight > TENANT_WEIGHT_MAX)
        return refuse_fact("weight", "1 to 10000", err);
    if (facts->guaranteed_slots < 0 || facts->guaranteed_slots > TENANT_SLOTS_MAX)
        return refuse_fact("guaranteed_slots", "0 or more", err);
    if (facts->limit_slots < 0 || facts->limit_slots > TENANT_SLOTS_MAX ||
        (facts->limit_slots && facts->limit_slots < facts->guaranteed_slots))
        return refuse_fact("limit_slots", "0 for none, else at least what is guaranteed", err);
    if (!cluster_tenant(cluster, facts->name) && strmap_count(&cluster->tenants) >= TENANTS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "the cluster can have at most %d tenants",
                         TENANTS_MAX);
    struct tenant *tenant = tenant_add(cluster, facts->name);
    tenant->weight = facts->weight;
    tenant->guaranteed_slots = facts->guaranteed_slots;
    tenant->limit_slots = facts->limit_slots;
    return 0;
}

static double use_left(double span_ms)
{
    return span_ms <= 0 ? 1 : exp2(-span_ms / USE_HALF_LIFE_MS);
}

double tenant_use(const struct tenant *tenant, int64_t now_ms)
{
    double left = use_left((double)(now_ms - tenant->use_at_ms));
    return tenant->use * left + tenant->slots_used * (1 - left);
}

/* An estimate for a job stored without its use: by its start, end and size, as if it never waited.
 */
static double guess_use(const struct job *job, int64_t wall_ms)
{
    const struct spec *spec = job->spec;
    if (!job->started_wall_ms || job->started_wall_ms > wall_ms)
        return 0;
    int world = job->current.world ? job->current.world : spec_world(spec, spec->nodes_min);
    int64_t end_ms = job->ended_wall_ms ? job->ended_wall_ms : wall_ms;
    return world * spec->resources.slots *
           (use_left((double)(wall_ms - end_ms)) -
            use_left((double)(wall_ms - job->started_wall_ms)));
}

double job_use(const struct job *job, int64_t wall_ms)
{
    if (!job->use_wall_ms)
        return guess_use(job, wall_ms);
    double left = use_left((double)(wall_ms - job->use_wall_ms));
    return job->use * left + job->slots_used * (1 - left);
}

double tenant_forgotten_use(const struct tenant *tenant, int64_t wall_ms)
{
    return tenant->forgotten_use * use_left((double)(wall_ms - tenant->forgotten_wall_ms));
}

void tenant_charge_forgotten(struct tenant *tenant, double use, int64_t wall_ms)
{
    tenant->forgotten_use = tenant_forgotten_use(tenant, wall_ms) + use;
    tenant->forgotten_wall_ms = wall_ms;
}

void tenant_take(struct cluster *cluster, struct tenant *tenant, int slots)
{
    tenant->use = tenant_use(tenant, cluster->now_ms);
    tenant->use_at_ms = cluster->now_ms;
    tenant->slots_used += slots;
    never(tenant->slots_used < 0);
}

void job_take(const struct cluster *cluster, struct job *job, int slots)
{
    if (cluster->wall_ms) { /* otherwise it is loaded: use is as of the last change of slots */
        job->use = job_use(job, cluster->wall_ms);
        job->use_wall_ms = cluster->wall_ms;
    }
    job->slots_used += slots;
    never(job->slots_used < 0);
}

int64_t cluster_wall(const struct cluster *cluster)
{
    return cluster->wall_ms;
}

void cluster_halt(struct cluster *cluster)
{
    cluster->halted = true;
}

bool cluster_halted(const struct cluster *cluster)
{
    return cluster->halted;
}

void cluster_set_now(struct cluster *cluster, int64_t now_ms, int64_t wall_ms)
{
    cluster->wall_ms = wall_ms;
    if (now_ms > cluster->now_ms)
        cluster->now_ms = now_ms;
}

void cluster_rebuild_use(struct cluster *cluster, int64_t now_ms, int64_t wall_ms)
{
    for (struct map_entry *e = strmap_first(&cluster->tenants); e; e = map_next(e)) {
        struct tenant *tenant = e->value;
        tenant->use = tenant_forgotten_use(tenant, wall_ms);
        tenant->use_at_ms = now_ms;
    }
    for (struct map_entry *e = map_first(&cluster->jobs); e; e = map_next(e)) {
        const struct job *job = e->value;
        job->tenant->use += job_use(job, wall_ms);
    }
}

void tenants_fini(struct cluster *cluster)
{
    for (struct map_entry *e = strmap_first(&cluster->tenants); e; e = map_next(e)) {
        map_fini(&((struct tenant *)e->value)->waiting);
        free(e->value);
    }
    strmap_fini(&cluster->tenants);
}

int64_t cluster_now(const struct cluster *cluster)
{
    return cluster->now_ms;
}
