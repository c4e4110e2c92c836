/* Passes over the queue: whether one is needed, and what it begins with. */
#ifndef MODEL_CLUSTER_PASS_H
#define MODEL_CLUSTER_PASS_H

#include "coordinator/model/cluster.h"

/* True if a pass over the queue is needed, because free resources or waiting jobs changed. */
void cluster_want_pass(struct cluster *cluster, bool wanted);
bool cluster_wants_pass(const struct cluster *cluster);
/* True if the present pass may set a new reason for all jobs in front of the queue: once in
 * `every_ms`. If not, a pass is wanted at the next time it may. */
bool cluster_front_reasons_due(struct cluster *cluster, int64_t every_ms);
/* When a pass is wanted for that; INT64_MAX = not. */
int64_t cluster_front_due_ms(const struct cluster *cluster);
/* Begin a pass. Returns the first job submitted since the last pass, or NULL. */
struct job *cluster_begin_pass(struct cluster *cluster);
uint64_t cluster_passes(const struct cluster *cluster); /* number of passes in this coordinator's
                                                         * life */

#endif
