/* A model's graph for people and programs: a table of its operations by block, a tree for JSON and
 * YAML, and a drawing in Graphviz's language. */
#ifndef CLI_MODEL_GRAPH_H
#define CLI_MODEL_GRAPH_H

#include <stdint.h>

#include "libworker/graph/node_pass.h"

struct arena;
struct tree;

struct model_view {
    const struct wk_graph *graph;
    int64_t samples, length;
    const struct training_pass *pass; /* as it is trained */
};

/* On standard output. */
void model_graph_table(const struct model_view *view);
void model_graph_dot(const struct model_view *view);
/* A line for each choice of kernels. */
void model_graph_chosen(const struct chosen_kernels *chosen);

/* Into the map `root`: {"model", "samples", "length", "peak_bytes", "host_bytes", "parameters",
 * "flop", "bytes", "kernels": [{"launches", "chosen"}],
 * "blocks": [{"name", …, "operations": […]}]}.
 * E_RESOURCE_EXHAUSTED. */
int model_graph_tree(const struct model_view *view, struct arena *arena, struct tree *root);

#endif
