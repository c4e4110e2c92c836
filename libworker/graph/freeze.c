#include "libworker/graph/freeze.h"

#include <fnmatch.h>
#include <stdlib.h>

#include <worker/error.h>

#include "libworker/graph/op.h"

/* A value trains if an input does that its operation passes a gradient to. */
static void spread_trains(struct wk_graph *graph)
{
    for (int i = 0; i < graph->n_params; i++)
        graph->params[i].tensor->trains = !graph->params[i].options.frozen;
    for (int i = 0; i < graph->n_nodes; i++) {
        struct node *node = graph->nodes[i];
        bool trains = false;
        for (int k = 0; k < node->n_in; k++)
            trains |= node->in[k] && node->in[k]->trains && (node->row->differentiable & OP_IN(k));
        node->out[0]->trains = trains;
    }
}

static bool all_losses_train(const struct wk_graph *graph)
{
    bool all = true;
    for (int i = 0; i < graph->n_losses; i++)
        all &= graph->losses[i].losses->trains;
    return all;
}

/* A node that would have to pass a gradient on, and has no backward function; or NULL. */
static const struct node *lacks_backward(const struct wk_graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        const struct op_row *row = node->row;
        if (node->out[0]->trains && !row->backward && !row->meets && !row->view &&
            !row->passes_gradient)
            return node;
    }
    return NULL;
}

/* The number of parameters that match; `before` notes what each was. */
static int set_frozen(struct wk_graph *graph, const char *pattern, bool on, bool *before)
{
    int matches = 0;
    for (int i = 0; i < graph->n_params; i++) {
        struct graph_param *param = &graph->params[i];
        before[i] = param->options.frozen;
        if (fnmatch(pattern, param->tensor->name, 0) != 0)
            continue;
        param->options.frozen = on;
        matches++;
    }
    return matches;
}

int graph_freeze(struct wk_graph *graph, const char *pattern, bool on, struct error *err)
{
    bool *before = calloc((size_t)graph->n_params + 1, sizeof(*before));
    if (!before)
        return error_set(err, WK_ENOMEM, "no memory to freeze parameters");
    int matches = set_frozen(graph, pattern, on, before), rc = 0;
    spread_trains(graph);
    const struct node *lacking = lacks_backward(graph);
    if (!matches)
        rc =
            error_set(err, WK_EINVAL, "the pattern \"%.80s\" matches no parameter; the first is %s",
                      pattern, graph->params[0].tensor->name);
    else if (!all_losses_train(graph))
        rc = error_set(err, WK_EINVAL,
                       "with \"%.80s\" frozen a loss depends on no parameter that is trained",
                       pattern);
    else if (lacking)
        rc = error_set(err, WK_EINVAL, "%s has no backward function, and \"%.80s\" would need it",
                       lacking->row->name, pattern);
    for (int i = 0; i < graph->n_params && rc; i++)
        graph->params[i].options.frozen = before[i];
    if (rc)
        spread_trains(graph);
    free(before);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct graph_param *one = a, *other = b;
    if (one->options.frozen != other->options.frozen)
        return one->options.frozen ? 1 : -1;
    return one->tensor->id < other->tensor->id ? -1 : 1;
}

void graph_sort_params(struct wk_graph *graph)
{
    if (graph->n_params)
        qsort(graph->params, (size_t)graph->n_params, sizeof(*graph->params), by_place);
    for (int i = 0; i < graph->n_params; i++)
        graph->params[i].tensor->index = i;
}
