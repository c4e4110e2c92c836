/* Changes of a job's workers and groups with what follows from them: used slots, reserved ports,
 * places in a group. For core, on the loop thread.
 */
#ifndef MODEL_GANG_H
#define MODEL_GANG_H

#include "coordinator/model/cluster.h"

/* A new worker in `ASSIGNED` occupies its slots; job_worker_gone sets EXITED and frees them.
 * Pointers to workers of this job are invalid after an addition. Aborts if memory is out. */
struct worker *job_add_worker(struct cluster *cluster, struct job *job,
                              const struct worker *worker);
void job_worker_gone(struct cluster *cluster, struct job *job, struct worker *worker);
void job_forget_workers(struct job *job); /* those that exited and are in no group */

/* Replace a group; `members` is copied. group_clear makes it "no group" and frees its port.
 * group_move empties `from`. */
void group_set(struct cluster *cluster, struct job *job, struct group *group,
               const struct group *value);
void group_clear(struct cluster *cluster, struct job *job, struct group *group);
void group_move(struct group *to, struct group *from);

/* Change the node's address; ports reserved there move with it. */
void cluster_move_node(struct cluster *cluster, struct node *node, const char *address);

/* A port of this node's range that no active job has on the same address; 0 = none is free. */
int cluster_free_port(struct cluster *cluster, const struct node *node);

#endif
