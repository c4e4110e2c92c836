/* What a node of a graph costs in a batch of given sizes, and the parameters that it brings. Pure.
 */
#ifndef GRAPH_NODE_COST_H
#define GRAPH_NODE_COST_H

#include "libworker/graph/op.h"

/* Its forward pass, or its backward pass with every gradient that it can have, in f32. An operation
 * without a rule of its own reads and writes its tensors once. */
struct op_cost node_cost(const struct node *node, const struct sizes *sizes, bool backward);

/* Elements of the parameters that no earlier node reads. */
int64_t node_new_params(const struct node *node);

#endif
