/* Lost nodes are forgotten, so that ever new names do not fill the cluster.
 *
 * A lost node is kept while a job that has begun has its rank 0 or a worker there, ended ones too.
 * It is kept while it is refused work because of its own fault, and if `muster rekey` removed a key
 * of it: the key would be accepted again. A node that an administrator cordoned or drains is
 * forgotten by age only, by a limit of its own.
 *
 * Beyond the number to keep, nodes that were here for less than BRIEF_NODE_MS go first, then the
 * ones seen longest ago. A forgotten node is a new one to the cluster: its agent needs a join token
 * again. */
#ifndef CORE_NODE_FORGET_H
#define CORE_NODE_FORGET_H

#include "coordinator/core/step_state.h"

void nodes_forget(struct step *step); /* by EVENT_NODES_FORGET */

/* True if a job that has begun refers to it. */
bool node_is_referred_to(const struct cluster *cluster, const struct node *node);

#endif
