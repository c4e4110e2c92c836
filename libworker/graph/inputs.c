#include "libworker/graph/inputs.h"

#include "libworker/graph/batch.h"
#include "libworker/graph/describe.h"

static size_t input_bytes(const struct wk_graph *graph, int input, const struct sizes *sizes)
{
    struct op_tensor tensor = describe_tensor(graph->inputs[input], sizes);
    return (size_t)tensor.count * wk_dtype_bytes(tensor.type);
}

int inputs_send(struct feed *feed, struct queue *queue, const struct inputs_wanted *wanted,
                const void *ret[GRAPH_NAMED_MAX], struct error *err)
{
    const struct wk_graph *graph = wanted->graph;
    struct feed_array arrays[GRAPH_NAMED_MAX];
    for (int i = 0; i < graph->n_inputs; i++)
        arrays[i] = (struct feed_array){batch_input(graph, wanted->batch, i),
                                        input_bytes(graph, i, wanted->sizes)};
    int rc = feed_send(feed, queue, arrays, graph->n_inputs, err);
    for (int i = 0; i < graph->n_inputs && !rc; i++)
        ret[i] = arrays[i].at;
    return rc;
}

int inputs_reserve(struct feed *feed, struct queue *queue, const struct wk_graph *graph,
                   const struct sizes *sizes, struct error *err)
{
    static const char there;
    struct feed_array arrays[GRAPH_NAMED_MAX];
    for (int i = 0; i < graph->n_inputs; i++)
        arrays[i] = (struct feed_array){&there, input_bytes(graph, i, sizes)};
    return feed_reserve(feed, queue, feed_bytes(arrays, graph->n_inputs), err);
}
