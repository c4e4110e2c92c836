/* Questions about workers, jobs, groups and nodes that several rooms ask. Pure. */
#ifndef MODEL_QUERY_H
#define MODEL_QUERY_H

#include "coordinator/model/cluster.h"

bool worker_living(const struct worker *worker); /* has not ended */
/* It lives, but was asked to stop, or its node is being freed. */
bool worker_is_leaving(const struct worker *worker);
bool worker_finished(const struct worker *worker); /* exited with 0, by itself */

int job_living_workers(const struct job *job);             /* workers that have not ended */
int cluster_living_workers(const struct cluster *cluster); /* the same of all jobs */
bool job_is_finishing(const struct job *job);              /* a rank of its gang has finished */
bool job_gang_ends(const struct job *job); /* all workers must stop: no group forms any more */
/* New workers start beside a gang that trains, in place of some of its members (core/move.h): the
 * group that forms is not open and lacks those. */
bool job_is_moving(const struct job *job);
/* The next of those members, from *rank on; NULL = there are no more. */
struct worker *job_next_left(const struct job *job, int *rank);
bool job_state_waits(enum job_state state); /* for a place in the cluster */
/* The topology value that the living workers' nodes share, which pins the job; NULL = any. */
const char *job_topology_value(const struct cluster *cluster, const struct job *job);

/* The value of the node's label, or NULL. The label "node" is the node's name. */
const char *node_label(const struct node *node, const char *key);
/* Why it is drained, in the words of the administrator; "" = none, or it is not drained. */
const char *node_drain_why(const struct node *node);
bool node_usable(const struct node *node); /* its workers may continue; NULL is not usable */

bool group_all_finished(const struct job *job, const struct group *group);
bool group_has_asked(const struct worker *worker, uint64_t generation); /* to join it */

#endif
