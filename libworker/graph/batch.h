/* A batch as a graph's inputs and losses read it. Pure. */
#ifndef GRAPH_BATCH_H
#define GRAPH_BATCH_H

#include <stdbool.h>

#include "libworker/graph/graph.h"

/* The array of input `index`, or NULL. */
const void *batch_input(const struct wk_graph *graph, const struct wk_batch *batch, int index);

/* True if the batch has all these inputs (bits by number). */
bool batch_has_inputs(const struct wk_graph *graph, const struct wk_batch *batch, uint64_t inputs);

/* Check that the inputs are there in their types, and that indices are within their tables.
 * Without `losses`, inputs that only losses read may be missing. WK_EINVAL names the input. */
int batch_check(const struct wk_graph *graph, const struct wk_batch *batch,
                const struct sizes *sizes, bool losses, struct error *err);

/* Targets of the first loss that count; the samples, if it has none. At least 1. */
double batch_count(const struct wk_graph *graph, const struct wk_batch *batch);

/* A loss' weight, and what its sum is divided by. */
double loss_weight(const struct wk_graph *graph, int loss);
double loss_divisor(const struct wk_graph *graph, const struct wk_batch *batch, int loss);

#endif
