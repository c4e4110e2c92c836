/* One pass of a graph's model: its plan, its memory, and what its launches share. Owned by the
 * model; one thread.
 */
#ifndef GRAPH_PASS_H
#define GRAPH_PASS_H

#include "libworker/graph/graph_model.h"

/* The sizes of a pass. Those that no shape of the graph has are 1, so that plans fit. */
struct sizes pass_sizes(const struct graph_model *m, int64_t samples, int64_t length);

/* A plan of the model as it is set now, for a pass of these sizes: kept by the model, valid until
 * the next call. WK_ENOMEM. */
int pass_plan(struct graph_model *m, const struct trace_options *trace, const struct sizes *sizes,
              struct plan **ret_plan, struct error *err);

/* Free a plan, and what the device has kept of its passes; NULL is fine. */
void pass_forget(struct graph_model *m, struct plan *plan);

/* Memory for the plan and the batch's inputs: m->run is ready to run its launches. WK_ENOMEM, or
 * the device's failure. */
int pass_prepare(struct graph_model *m, const struct plan *plan, const struct wk_batch *batch,
                 struct error *err);

/* A value on the host when the queue is done: where it is, or a copy in *ret_copy, which the caller
 * frees. WK_ENOMEM, or the device's failure. */
int pass_fetch(const struct graph_model *m, const struct plan *plan, int value,
               const float **ret_values, float **ret_copy, struct error *err);

/* The number of the output of this name, or -1. */
int pass_output(const struct wk_graph *graph, const char *name);

#endif
