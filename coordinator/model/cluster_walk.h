/* Walks over a cluster's nodes and jobs: nodes by name, jobs by sequence. NULL ends a walk. */
#ifndef MODEL_CLUSTER_WALK_H
#define MODEL_CLUSTER_WALK_H

#include "coordinator/model/cluster.h"

struct node *cluster_first_node(const struct cluster *cluster);
struct node *cluster_next_node(const struct cluster *cluster, const struct node *node);
struct job *cluster_first_job(const struct cluster *cluster);
struct job *cluster_job_from(const struct cluster *cluster, uint64_t sequence); /* this one or the
                                                                                 * next */
struct job *cluster_next_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_last_job(const struct cluster *cluster);
struct job *cluster_prev_job(const struct cluster *cluster, const struct job *job);
/* Three lists. Active: jobs that have not ended, by sequence. Begun: active jobs that are not
 * queued, by sequence. Waiting: jobs that wait for a place, in order: higher priority first, then
 * by sequence.
 *
 * Only begun jobs have living workers. They are few however long the queue is, so code that looks
 * for workers iterates over them (100,000 jobs, and every submit is a pass).
 */
struct job *cluster_first_active_job(const struct cluster *cluster);
struct job *cluster_next_active_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_first_begun_job(const struct cluster *cluster);
struct job *cluster_next_begun_job(const struct cluster *cluster, const struct job *job);
/* Begun jobs that may have more nodes than they need, or have spares. */
struct job *cluster_first_flexible_job(const struct cluster *cluster);
struct job *cluster_next_flexible_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_first_waiting(const struct cluster *cluster);
struct job *cluster_next_waiting(const struct cluster *cluster, const struct job *job);
/* Jobs with their checkpoints in the folder of `spec`, ended ones too, newest first. */
struct job *cluster_first_in_folder(const struct cluster *cluster, const struct spec *spec);
struct job *cluster_next_in_folder(const struct job *job);

#endif
