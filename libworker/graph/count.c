#include "libworker/graph/count.h"

#include <worker/nn.h>

#include "libworker/graph/batch.h"
#include "libworker/graph/element.h"
#include "libworker/graph/graph_model.h"
#include "libworker/graph/op.h"

/* The first input through which a gradient flows. */
static const struct wk_tensor *way_back(const struct node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] && node->in[i]->trains)
            return node->in[i];
    }
    return NULL;
}

/* The input with the targets of a loss: that of the nearest operation that leaves out WK_IGNORED;
 * or NULL. */
static const struct wk_tensor *targets_of(const struct wk_graph *graph, int loss)
{
    const struct wk_tensor *tensor = graph->losses[loss].losses;
    while (tensor && tensor->node && !tensor->node->row->index_ignores)
        tensor = way_back(tensor->node);
    if (!tensor || !tensor->node)
        return NULL;
    return tensor_input(tensor->node->in[tensor->node->row->index_input - 1]);
}

static const struct wk_tensor *counted_input(const struct wk_graph *graph, int loss)
{
    const struct wk_loss *options = &graph->losses[loss].options;
    switch (options->per) {
    case WK_PER_TARGET:
        return targets_of(graph, loss);
    case WK_PER_INPUT:
        return tensor_input(options->input);
    case WK_PER_SAMPLE:
    case WK_PER_ELEMENT:
        return NULL;
    }
    return NULL;
}

/* Elements of the dimensions that are free: samples, or positions of samples. */
static int64_t positions(const struct wk_tensor *losses, const struct sizes *sizes)
{
    int64_t count = 1;
    for (int i = 0; i < losses->dims; i++)
        count *= dim_is_fixed(losses->shape[i]) ? 1 : dim_size(losses->shape[i], sizes);
    return count;
}

/* Of an input that has the same size in the batch and in the graph; else the pass is refused. */
static double count_values(const struct wk_tensor *input, const struct wk_batch_tensor *found,
                           const struct sizes *sizes, bool targets)
{
    double sum = 0;
    int64_t count = found->type == input->type ? batch_elements(input, sizes) : 0;
    if (found->elements &&
        found->elements != batch_elements(input, &(struct sizes){1, sizes->length}))
        count = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = element_value(found->data, found->type, i);
        sum += !targets ? value : value > WK_IGNORED || value < WK_IGNORED ? 1 : 0;
    }
    return sum;
}

/* What `samples` samples of the batch add to a denominator; of those that it has where values are
 * counted. */
static double share_of(const struct wk_graph *graph, const struct wk_batch *batch, int64_t samples,
                       int loss)
{
    const struct wk_tensor *losses = graph->losses[loss].losses;
    const struct wk_tensor *input = counted_input(graph, loss);
    struct sizes sizes = {samples, batch->length > 0 ? batch->length : 1};
    enum wk_per per = graph->losses[loss].options.per;
    if (per == WK_PER_SAMPLE)
        return (double)samples;
    if (per == WK_PER_ELEMENT)
        return (double)batch_elements(losses, &sizes);
    if (input) {
        struct wk_batch_tensor found = batch_find(graph, batch, input->index);
        sizes.samples = batch->samples;
        if (found.data)
            return count_values(input, &found, &sizes, per == WK_PER_TARGET);
    }
    return batch->denominator > 0 ? batch->denominator : (double)positions(losses, &sizes);
}

double loss_weight(const struct wk_graph *graph, int loss)
{
    double weight = graph->losses[loss].options.weight;
    return weight > 0 || weight < 0 ? weight : 1;
}

static double divisor_of(const struct wk_graph *graph, const struct wk_batch *batch, int loss)
{
    int64_t samples = batch->global_samples > 0 ? batch->global_samples : batch->samples;
    if (graph->losses[loss].options.per == WK_PER_TARGET && batch->denominator > 0)
        return batch->denominator;
    return share_of(graph, batch, samples, loss);
}

void loss_divisors(const struct wk_graph *graph, const struct wk_batch *batch, const double *given,
                   double *ret)
{
    for (int i = 0; i < graph->n_losses; i++) {
        double divisor = given ? given[i] : divisor_of(graph, batch, i);
        ret[i] = divisor > 0 ? divisor : 1;
    }
}

static const struct wk_graph *graph_of(const struct wk_model *model)
{
    return ((const struct graph_model *)model)->graph;
}

static int count_losses(const struct wk_model *model)
{
    return graph_of(model)->n_losses;
}

static struct count_input count_input_of(const struct wk_model *model, int loss)
{
    const struct wk_graph *graph = graph_of(model);
    const struct wk_tensor *input = counted_input(graph, loss);
    return (struct count_input){input ? input->name : NULL,
                                graph->losses[loss].options.per == WK_PER_TARGET};
}

static void count_add(const struct wk_model *model, const struct wk_batch *batch, double *ret)
{
    const struct wk_graph *graph = graph_of(model);
    for (int i = 0; i < graph->n_losses; i++)
        ret[i] += share_of(graph, batch, batch->samples, i);
}

const struct count_ops graph_count_ops = {
    .losses = count_losses,
    .input = count_input_of,
    .add = count_add,
};
