/* A batch as a graph's inputs read it. Pure. */
#ifndef GRAPH_BATCH_H
#define GRAPH_BATCH_H

#include <stdbool.h>

#include "libworker/graph/graph.h"

/* What the batch has for input `index`; data NULL: nothing. */
struct wk_batch_tensor batch_find(const struct wk_graph *graph, const struct wk_batch *batch,
                                  int index);

/* The array of input `index`, or NULL. */
const void *batch_input(const struct wk_graph *graph, const struct wk_batch *batch, int index);

/* True if the batch has all these inputs (bits by number). */
bool batch_has_inputs(const struct wk_graph *graph, const struct wk_batch *batch, uint64_t inputs);

/* Check that the inputs are there in their types, and that indices are within their tables.
 * Without `losses`, inputs that only losses read may be missing. WK_EINVAL names the input. */
int batch_check(const struct wk_graph *graph, const struct wk_batch *batch,
                const struct sizes *sizes, bool losses, struct error *err);

/* Elements of a tensor. */
int64_t batch_elements(const struct wk_tensor *tensor, const struct sizes *sizes);

#endif
