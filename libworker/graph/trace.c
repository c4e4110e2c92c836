#include "libworker/graph/trace.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/graph/op.h"

/* Input k as the purpose reads it, or NULL. */
static struct wk_tensor *read_by(const struct node *node, const struct trace_options *options,
                                 int k)
{
    unsigned unread = options->trains ? node->row->evaluated_in : node->row->trained_in;
    return unread & OP_IN(k) ? NULL : node->in[k];
}

/* Mark what the marked nodes need, too. */
static void spread(const struct wk_graph *graph, const struct trace_options *options, bool *needed)
{
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_in && needed[i]; k++) {
            const struct wk_tensor *in = read_by(node, options, k);
            if (in && in->node)
                needed[in->node->id] = true;
        }
    }
}

/* Mark what the roots need: needed[node]. */
static void mark(const struct wk_graph *graph, const struct trace_options *options, bool *needed)
{
    for (int i = 0; i < graph->n_losses && (options->trains || options->losses); i++) {
        const struct node *node = graph->losses[i].losses->node;
        if (node)
            needed[node->id] = true;
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct node *node = graph->outputs[i].value->node;
        if (node && (options->outputs >> i & 1))
            needed[node->id] = true;
    }
    for (int i = 0; i < graph->n_buffers && options->trains; i++) {
        if (graph->buffers[i].next)
            needed[graph->buffers[i].next->node->id] = true;
    }
    spread(graph, options, needed);
    if (!options->fills)
        return;
    for (int i = 0; i < graph->n_nodes; i++)
        needed[i] = needed[i] && graph->nodes[i]->row->cache_width;
    spread(graph, options, needed);
}

static bool drops_nothing(const struct node *node, const struct trace_options *options)
{
    return node->row->drops && (!options->trains || !node->row->drops(node, options->drops));
}

/* The works of the needed nodes, with elided ones replaced by their inputs. */
static void list_works(struct trace *trace, const struct wk_graph *graph,
                       const struct trace_options *options, const bool *needed)
{
    for (int i = 0; i < graph->n_tensors; i++)
        trace->same[i] = graph->tensors[i];
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (!needed[i])
            continue;
        if (drops_nothing(node, options)) {
            trace->same[node->out[0]->id] = trace->same[node->in[0]->id];
            continue;
        }
        struct work *work = &trace->works[trace->n++];
        *work = (struct work){.node = node};
        memcpy(work->out, node->out, sizeof(work->out));
        for (int k = 0; k < node->n_in; k++)
            work->in[k] = read_by(node, options, k) ? trace->same[node->in[k]->id] : NULL;
    }
}

static void count_users(struct trace *trace)
{
    for (int i = 0; i < trace->n; i++) {
        for (int k = 0; k < NODE_INPUTS_MAX; k++) {
            if (trace->works[i].in[k])
                trace->users[trace->works[i].in[k]->id]++;
        }
    }
}

static void note_last(struct trace *trace)
{
    for (int i = 0; i < trace->n; i++) {
        for (int k = 0; k < NODE_INPUTS_MAX; k++) {
            if (trace->works[i].in[k])
                trace->last[tensor_base(trace->works[i].in[k])->id] = i;
        }
    }
}

bool trace_is_root(const struct wk_graph *graph, const struct trace *trace,
                   const struct wk_tensor *tensor)
{
    for (int i = 0; i < graph->n_losses; i++) {
        if (trace->same[graph->losses[i].losses->id] == tensor)
            return true;
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        if (trace->same[graph->outputs[i].value->id] == tensor)
            return true;
    }
    for (int i = 0; i < graph->n_buffers; i++) {
        const struct wk_tensor *next = graph->buffers[i].next;
        if (next && trace->same[next->id] == tensor)
            return true;
    }
    return false;
}

/* The work that computes `value`, if it is a linear layer that can add `other` to it. `made` has
 * each tensor's work, or -1. */
static struct work *layer_that_adds(const struct wk_graph *graph, struct trace *trace,
                                    const int *made, const struct work *add, int value)
{
    const struct wk_tensor *sum = add->in[value], *other = add->in[1 - value];
    int at = made[sum->id];
    if (at < 0 || trace->users[sum->id] != 1 || trace_is_root(graph, trace, sum) || sum == other)
        return NULL;
    struct work *work = &trace->works[at];
    bool fits = work->node->row == &op_linear && !work->in[LINEAR_RESIDUAL] &&
                work->node->block == add->node->block && work->node->wide == add->node->wide &&
                tensor_same_shape(sum, other) && other->kind == TENSOR_VALUE &&
                made[other->id] < at;
    return fits ? work : NULL;
}

/* add(linear(x), y) becomes linear(x) with the residual y. */
static void fuse_residuals(const struct wk_graph *graph, struct trace *trace, int *made)
{
    int kept = 0;
    for (int i = 0; i < trace->n; i++) {
        struct work *work = &trace->works[i], *layer = NULL;
        if (work->node->row == &op_add) {
            layer = layer_that_adds(graph, trace, made, work, 1);
            int value = 1;
            if (!layer) {
                layer = layer_that_adds(graph, trace, made, work, 0);
                value = 0;
            }
            if (layer) {
                layer->in[LINEAR_RESIDUAL] = work->in[1 - value];
                layer->out[0] = work->out[0];
                made[work->out[0]->id] = (int)(layer - trace->works);
                continue;
            }
        }
        made[work->out[0]->id] = kept;
        trace->works[kept++] = *work;
    }
    trace->n = kept;
}

int trace_init(struct trace *trace, const struct wk_graph *graph,
               const struct trace_options *options, struct error *err)
{
    size_t tensors = (size_t)graph->n_tensors + 1, nodes = (size_t)graph->n_nodes + 1;
    bool *needed = calloc(nodes, sizeof(*needed));
    int *made = malloc(tensors * sizeof(*made));
    *trace = (struct trace){.works = calloc(nodes, sizeof(*trace->works)),
                            .users = calloc(tensors, sizeof(*trace->users)),
                            .last = malloc(tensors * sizeof(*trace->last)),
                            .same = calloc(tensors, sizeof(struct wk_tensor *))};
    bool has = needed && made && trace->works && trace->users && trace->last && trace->same;
    if (has) {
        mark(graph, options, needed);
        list_works(trace, graph, options, needed);
        count_users(trace);
        memset(made, -1, tensors * sizeof(*made));
        fuse_residuals(graph, trace, made);
        memset(trace->last, -1, tensors * sizeof(*trace->last));
        note_last(trace);
    }
    free(needed);
    free(made);
    if (has)
        return 0;
    trace_fini(trace);
    return error_set(err, WK_ENOMEM, "no memory to plan the model");
}

void trace_fini(struct trace *trace)
{
    free(trace->works);
    free(trace->users);
    free(trace->last);
    free(trace->same);
    *trace = (struct trace){0};
}
