/* The cluster's state: nodes, jobs, gangs. Plain structs and queries, no decisions. Only core
 * changes them, on the loop thread; api and store read them between steps. A pointer into a cluster
 * is never kept across a step. Times ending in `_ms` are monotonic, in `_wall_ms` since 1970.
 *
 *     node.h             a node                  cluster_walk.h     walks over nodes and jobs
 *     job.h              a job                   cluster_timers.h   when they are looked at again
 *     group.h, worker.h  its gang                cluster_pass.h     passes over the queue
 *     tenant.h           who shares them         gang.h             changes of a gang
 */
#ifndef MODEL_CLUSTER_H
#define MODEL_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "coordinator/model/job.h"
#include "coordinator/model/node.h"

enum {
    CLUSTER_NODES_MAX = 20000,
    CLUSTER_JOBS_MAX = 200000,
    CLUSTER_JOBS_RESERVED = 5000, /* of these, for administrators */
};

struct cluster; /* maps of nodes by name and jobs by id and by sequence; see cluster.c */

struct cluster *cluster_new(uint64_t seed); /* seed of its own random stream (backoff jitter) */
void cluster_free(struct cluster *cluster);

/* Queries. NULL if there is none. Walks: cluster_walk.h. */
struct node *cluster_node(const struct cluster *cluster, const char *name);
struct job *cluster_job(const struct cluster *cluster, const char *id);
struct job *cluster_job_named(const struct cluster *cluster, const char *name); /* newest */
struct job *cluster_job_by_key(const struct cluster *cluster, const char *tenant,
                               const char *idempotency_key);
int cluster_nodes_count(const struct cluster *cluster);
int cluster_jobs_count(const struct cluster *cluster);

/* Changes, for core and for loading the store. The cluster takes ownership: it frees nodes with
 * node_free and jobs with job_free, which free their arrays with free(). On failure the caller
 * still owns its argument. Loading adds all nodes before the first job. Fields marked derived are
 * computed here and need not be stored. */
int cluster_add_node(struct cluster *cluster, struct node *node, struct error *err);
int cluster_add_job(struct cluster *cluster, struct job *job, struct error *err);
uint64_t cluster_next_sequence(struct cluster *cluster);
/* Never assign a number below `first` again: their jobs are forgotten, their ids are not. */
void cluster_skip_sequences(struct cluster *cluster, uint64_t first);
/* Forget and free an ended job without living workers. Never in the middle of a step. */
void cluster_remove_job(struct cluster *cluster, struct job *job);
struct rng *cluster_rng(struct cluster *cluster);

/* Update the lists after a change of job->state, job->spec or `waiting`. */
void cluster_job_moved(struct cluster *cluster, struct job *job, bool waiting);

/* Stop placing for the rest of this coordinator's life. */
void cluster_halt(struct cluster *cluster);
bool cluster_halted(const struct cluster *cluster);

#endif
