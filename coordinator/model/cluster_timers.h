/* When a job or node of the cluster is looked at again. */
#ifndef MODEL_CLUSTER_TIMERS_H
#define MODEL_CLUSTER_TIMERS_H

#include "coordinator/model/cluster.h"

/* Set when a job or node is due (INT64_MAX = never), and return those that are due. */
void cluster_wake_job(struct cluster *cluster, struct job *job, int64_t at_ms);
void cluster_wake_node(struct cluster *cluster, struct node *node, int64_t at_ms);
int64_t cluster_next_wake(const struct cluster *cluster);
struct job *cluster_due_job(struct cluster *cluster, int64_t now_ms);   /* removes it from the
                                                                         * timers; or NULL */
struct node *cluster_due_node(struct cluster *cluster, int64_t now_ms); /* removes it from the
                                                                         * timers; or NULL */

#endif
