/* The tenants that share the cluster: guarantee, limit, present and past use. Part of the cluster
 * (cluster.h): changed by core on the loop thread, read between steps.
 *
 * `use` is the average of a tenant's slots in use, weighted towards the present: use
 * USE_HALF_LIFE_MS ago counts half. A tenant that has always used n slots has use n.
 */
#ifndef MODEL_TENANT_H
#define MODEL_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/map.h"
#include "common/base/name.h"

enum {
    TENANTS_MAX = 1000,
    TENANT_SLOTS_MAX = 10000000,
    TENANT_WEIGHT_MAX = 10000,
    USE_HALF_LIFE_MS = 24 * 3600 * 1000,
};

struct tenant {
    char name[NAME_LENGTH_MAX + 1];
    int weight;           /* its share relative to the other tenants */
    int guaranteed_slots; /* it gets this many on request, if necessary from borrowers */
    int limit_slots;      /* it never uses more; 0 = no limit */
    /* derived, not stored */
    int slots_used;
    int active_jobs, ended_jobs; /* of jobs that are remembered */
    int64_t active_spec_bytes, ended_spec_bytes;
    double use; /* as of use_at_ms */
    int64_t use_at_ms;
    double forgotten_use; /* of its forgotten jobs, as of forgotten_wall_ms */
    int64_t forgotten_wall_ms;
    struct map waiting; /* its jobs that wait for a place: higher priority first, then sequence */
    int number;         /* of its line in the queue of the present pass */
    /* of all its jobs since the process began, forgotten ones too: metrics, which must not fall */
    uint64_t restarts, recoveries;
};

struct cluster;
struct job;

/* The tenant of that name, or NULL. A tenant that was never set has weight 1, and appears with its
 * first job. "default" always exists. Iteration is by name. */
struct tenant *cluster_tenant(const struct cluster *cluster, const char *name);
struct tenant *cluster_first_tenant(const struct cluster *cluster);
struct tenant *cluster_next_tenant(const struct cluster *cluster, const struct tenant *tenant);

/* Create or change by name, weight and slots of `facts`; for core and for loading the store.
 * E_INVALID_ARGUMENT with the field, E_RESOURCE_EXHAUSTED beyond TENANTS_MAX. */
int cluster_set_tenant(struct cluster *cluster, const struct tenant *facts, struct error *err);

/* Decayed use as of now, in slots. */
double tenant_use(const struct tenant *tenant, int64_t now_ms);

/* Set the time of this step, by which use is charged. */
void cluster_set_now(struct cluster *cluster, int64_t now_ms, int64_t wall_ms);
int64_t cluster_wall(const struct cluster *cluster);
int64_t cluster_now(const struct cluster *cluster);

/* A job's share of it: its slots while it had some, nothing while it waited. */
double job_use(const struct job *job, int64_t wall_ms);

/* The share of forgotten jobs; and add that of a job being forgotten. */
double tenant_forgotten_use(const struct tenant *tenant, int64_t wall_ms);
void tenant_charge_forgotten(struct tenant *tenant, double use, int64_t wall_ms);

/* After a restart: sum the shares of all jobs, remembered or forgotten. */
void cluster_rebuild_use(struct cluster *cluster, int64_t now_ms, int64_t wall_ms);

#endif
