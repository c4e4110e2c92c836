/* What only a complete graph can get wrong. */
#include <stdlib.h>

#include <worker/error.h>

#include "libworker/graph/build.h"
#include "libworker/graph/op.h"

enum { PARAM_DIMS = 4 }; /* of the arenas' tables (nn/model.h) */

/* Mark the tensors that `root` depends on. */
static void mark(const struct wk_graph *graph, bool *reached, const struct wk_tensor *root)
{
    reached[root->id] = true;
    for (int i = root->node ? root->node->id : -1; i >= 0; i--) {
        const struct node *node = graph->nodes[i];
        bool needed = false;
        for (int k = 0; k < node->n_out; k++)
            needed |= reached[node->out[k]->id];
        for (int k = 0; k < node->n_in && needed; k++) {
            if (node->in[k])
                reached[node->in[k]->id] = true;
        }
    }
}

static uint64_t inputs_in(const struct wk_graph *graph, const bool *reached)
{
    uint64_t inputs = 0;
    for (int i = 0; i < graph->n_inputs; i++)
        inputs |= reached[graph->inputs[i]->id] ? (uint64_t)1 << i : 0;
    return inputs;
}

/* Inputs that are read only as the starts of documents, which a batch may lack. */
static uint64_t inputs_of_starts(const struct wk_graph *graph)
{
    uint64_t starts = 0, others = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_in && !node->row->view && !node->row->converts; k++) {
            const struct wk_tensor *input = node->in[k] ? tensor_input(node->in[k]) : NULL;
            bool as_starts = node->row->index_starts && node->row->index_input == 1 + k;
            if (input)
                *(as_starts ? &starts : &others) |= (uint64_t)1 << input->index;
        }
    }
    return starts & ~others;
}

/* `outputs`: reached by them; a frozen parameter may be only there. */
static void check_params(struct wk_graph *graph, const bool *reached, const bool *outputs)
{
    for (int i = 0; i < graph->n_params; i++) {
        const struct wk_tensor *param = graph->params[i].tensor;
        if (param->dims > PARAM_DIMS)
            graph_refuse(graph, "parameter %s has %d dimensions; at most %d are stored",
                         param->name, param->dims, PARAM_DIMS);
        bool used = reached[param->id] || (!param->trains && outputs[param->id]);
        if (graph->n_losses && !used)
            graph_refuse(graph, "parameter %s reaches no loss: use it or leave it out",
                         param->name);
    }
}

/* The backward kernel of the node computes the gradient of input `i`. */
static bool computes_gradient(const struct node *node, int i)
{
    const struct op_row *row = node->row;
    return node->in[i] && node->in[i]->trains && (row->differentiable & OP_IN(i)) && !row->view &&
           !(row->passes_gradient & OP_IN(i));
}

/* What the losses need a gradient of has a backward kernel. `wanted`, all false, is for notes. */
static void check_gradients(struct wk_graph *graph, bool *wanted)
{
    for (int i = 0; i < graph->n_losses; i++)
        wanted[graph->losses[i].losses->id] = true;
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_in && wanted[node->out[0]->id]; k++) {
            if (computes_gradient(node, k) && !node->row->backward && !node->row->meets)
                graph_refuse(graph,
                             "%s has no backward function, and a loss needs the gradient of its "
                             "input %d: give one, name the input in `constants`, or use "
                             "wk_op_stop_gradient",
                             node->row->name, k);
            if (node->in[k] && node->in[k]->trains && (node->row->differentiable & OP_IN(k)))
                wanted[node->in[k]->id] = true;
        }
    }
}

static void check_buffer(struct wk_graph *graph, const struct graph_buffer *buffer)
{
    if (buffer->tensor->dims > PARAM_DIMS)
        graph_refuse(graph, "buffer %s has %d dimensions; at most %d are stored",
                     buffer->tensor->name, buffer->tensor->dims, PARAM_DIMS);
}

static void check_length(struct wk_graph *graph)
{
    for (int i = 0; i < graph->n_tensors; i++) {
        for (int k = 0; k < graph->tensors[i]->dims; k++) {
            graph->uses_length |= graph->tensors[i]->shape[k].length > 0;
            graph->uses_ranks |= graph->tensors[i]->shape[k].ranks > 0;
        }
    }
    if (graph->uses_length && !graph->max_length)
        graph_refuse(graph, "WK_LENGTH has no limit: call wk_graph_max_length");
}

void graph_check_whole(struct wk_graph *graph)
{
    size_t tensors = (size_t)graph->n_tensors + 1;
    bool *reached = calloc(tensors, sizeof(*reached)), *outputs = calloc(tensors, sizeof(*outputs));
    if ((!reached || !outputs) && !graph->error.code)
        (void)error_set(&graph->error, WK_ENOMEM, "no memory for the graph %s", graph->name);
    if (!graph->error.code && !graph->n_params)
        graph_refuse(graph, "the graph %s has no parameters", graph->name);
    if (!graph->error.code && !graph->n_losses && !graph->n_outputs)
        graph_refuse(graph, "the graph %s has neither a loss nor an output", graph->name);
    if (!graph->error.code) {
        for (int i = 0; i < graph->n_outputs; i++)
            mark(graph, outputs, graph->outputs[i].value);
        graph->output_inputs = inputs_in(graph, outputs) & ~inputs_of_starts(graph);
        for (int i = 0; i < graph->n_losses; i++)
            mark(graph, reached, graph->losses[i].losses);
        check_params(graph, reached, outputs);
        for (int i = 0; i < graph->n_losses; i++) {
            if (graph->losses[i].options.input)
                mark(graph, reached, graph->losses[i].options.input);
        }
        for (int i = 0; i < graph->n_buffers; i++) {
            check_buffer(graph, &graph->buffers[i]);
            if (graph->n_losses && graph->buffers[i].next)
                mark(graph, reached, graph->buffers[i].next);
        }
        graph->loss_inputs = inputs_in(graph, reached) & ~inputs_of_starts(graph);
        check_length(graph);
        for (int i = 0; i < graph->n_tensors; i++)
            reached[i] = false;
        check_gradients(graph, reached);
    }
    free(reached);
    free(outputs);
}
