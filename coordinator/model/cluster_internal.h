/* The cluster's own tables, for the files of model/ only. */
#ifndef MODEL_CLUSTER_INTERNAL_H
#define MODEL_CLUSTER_INTERNAL_H

#include "common/base/heap.h"
#include "common/base/map.h"
#include "common/base/rng.h"
#include "coordinator/model/cluster.h"

struct cluster {
    struct strmap nodes;
    struct strmap let_in; /* id of a join token -> number of its nodes (cluster_nodes.c) */
    struct map jobs, active, begun, flexible; /* by sequence */
    struct map waiting;                       /* by priority, then sequence */
    struct strmap jobs_by_id;
    struct strmap jobs_by_name;   /* the newest of each */
    struct strmap jobs_by_key;    /* "tenant\nkey" */
    struct strmap jobs_by_folder; /* the newest of each folder of checkpoints */
    struct strmap ports;          /* "address:port" -> the job that uses it */
    struct strmap tenants;
    int64_t now_ms, wall_ms; /* of the present step */
    struct heap job_timers, node_timers;
    bool halted;
    bool pass_wanted;
    /* last new reasons for the front of the queue, and the next ones; 0 = none */
    int64_t front_reasons_ms, front_due_ms;
    uint64_t passes, passed_below; /* number of passes; the last one knew the jobs below
                                    * `passed_below` */
    uint64_t next_sequence;
    struct rng rng;
};

/* "tenant\nkey", the name in jobs_by_key; NULL if it is too long. */
enum { JOB_KEY_NAME_MAX = 512 };
const char *job_key_name(const char *tenant, const char *key, char ret[JOB_KEY_NAME_MAX]);
/* The place in `waiting`. */
uint64_t job_waiting_key(const struct job *job);

/* Occupy or free a living worker's resources on its node. */
void worker_take(struct cluster *cluster, struct job *job, const struct worker *worker);
void worker_give(struct cluster *cluster, struct job *job, const struct worker *worker);

/* Add to or remove from the chain of jobs_by_folder. */
void folder_add(struct cluster *cluster, struct job *job);
void folder_remove(struct cluster *cluster, struct job *job);

void group_derive(const struct job *job, struct group *group); /* places, nodes */
void group_take_port(struct cluster *cluster, struct job *job, const struct group *group);
void group_give_port(struct cluster *cluster, struct job *job, const struct group *group);

/* Count a remembered job for its tenant: 1 when it is added, -1 when it is forgotten.
 * tenant_end_job moves it from the active count to the ended one. */
void tenant_count_job(const struct job *job, int by);
void tenant_end_job(const struct job *job);

struct tenant *tenant_add(struct cluster *cluster, const char *name); /* or the existing one */
void tenant_take(struct cluster *cluster, struct tenant *tenant,
                 int slots); /* below 0: frees slots */
/* The same for the job's share of it. */
void job_take(const struct cluster *cluster, struct job *job, int slots);
void tenants_fini(struct cluster *cluster);

#endif
