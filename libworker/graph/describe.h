/* Tensors and calls by their sizes alone, without addresses: for costs, scratch and printing. Pure.
 */
#ifndef GRAPH_DESCRIBE_H
#define GRAPH_DESCRIBE_H

#include "libworker/graph/op_call.h"

struct op_tensor describe_tensor(const struct wk_tensor *tensor, const struct sizes *sizes);

/* A forward call of the node in f32; and backward, with every gradient that it can have. */
void describe_node(const struct node *node, const struct sizes *sizes, struct op_call *ret);

#endif
