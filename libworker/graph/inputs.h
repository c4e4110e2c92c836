/* The inputs of a graph's batch in the memory of its device (device/feed.h). Owned by the site of a
 * model; one thread. */
#ifndef GRAPH_INPUTS_H
#define GRAPH_INPUTS_H

#include "libworker/device/feed.h"
#include "libworker/graph/graph.h"

/* For the launches that are enqueued on `queue` from now on: where each input of the batch is, NULL
 * if the batch lacks it. Fails as feed_send. */
struct inputs_wanted {
    const struct wk_graph *graph;
    const struct wk_batch *batch;
    const struct sizes *sizes;
};
int inputs_send(struct feed *feed, struct queue *queue, const struct inputs_wanted *wanted,
                const void *ret[GRAPH_NAMED_MAX], struct error *err);

/* Memory for batches of these sizes that have all inputs. Fails as feed_reserve. */
int inputs_reserve(struct feed *feed, struct queue *queue, const struct wk_graph *graph,
                   const struct sizes *sizes, struct error *err);

#endif
