/* The table of nodes: a node is forgotten, and how many nodes a join token let in. For core and
 * api_rpc; the loop thread only. cluster_add_node (cluster.h) puts a node into the table. */
#ifndef MODEL_CLUSTER_NODES_H
#define MODEL_CLUSTER_NODES_H

#include "coordinator/model/cluster.h"

/* Number of known nodes, lost ones too, that the token with this id let in. */
int cluster_nodes_let_in_by(const struct cluster *cluster, const char *token);

/* Change which token let the node in; its share is counted from then on. */
void cluster_set_let_in_by(struct cluster *cluster, struct node *node, const char *token);

/* Forget and free a lost node without jobs. Never in the middle of a walk over the nodes. */
void cluster_remove_node(struct cluster *cluster, struct node *node);

#endif
