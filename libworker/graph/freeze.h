/* Choosing which parameters of a graph are trained once it is complete. One thread. */
#ifndef GRAPH_FREEZE_H
#define GRAPH_FREEZE_H

#include "libworker/graph/graph.h"

/* Freeze the parameters with names that match the pattern, or with `on` false train them. What
 * gradients flow through follows. WK_EINVAL, and nothing changed: no name matches, or a loss would
 * depend on no parameter that is trained. */
int graph_freeze(struct wk_graph *graph, const char *pattern, bool on, struct error *err);

/* Trained parameters in the order in which they were made, then frozen ones. */
void graph_sort_params(struct wk_graph *graph);

/* The number of a parameter's block among those of trained parameters, then of frozen ones. */
static inline int graph_part(const struct wk_graph *graph, const struct wk_tensor *param)
{
    return param->block + (param->trains ? 0 : graph->n_blocks);
}

#endif
