/* What a graph's losses are divided by (nn/count.h). Pure. */
#ifndef GRAPH_COUNT_H
#define GRAPH_COUNT_H

#include "libworker/graph/graph.h"
#include "libworker/nn/count.h"

_Static_assert((int)MODEL_LOSSES_MAX == (int)GRAPH_NAMED_MAX, "a graph's losses");

extern const struct count_ops graph_count_ops;

double loss_weight(const struct wk_graph *graph, int loss);

/* The divisors of a pass over the batch, never 0: ret[n_losses]. They are `given`, or if that is
 * NULL those of the batch alone. */
void loss_divisors(const struct wk_graph *graph, const struct wk_batch *batch, const double *given,
                   double *ret);

#endif
