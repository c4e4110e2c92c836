#include "libworker/graph/words.h"

#include <string.h>

#include "libworker/graph/op.h"
#include "libworker/graph/pass.h"

static const struct graph_model *of(const struct wk_model *model)
{
    return (const struct graph_model *)model;
}

static int count_lines(const struct wk_model *model)
{
    const struct wk_graph *graph = of(model)->graph;
    return graph->n_params + graph->n_nodes + graph->n_losses + graph->n_buffers;
}

static void say_param(const struct graph_param *param, char ret[MODEL_LINE_MAX])
{
    char tensor[TENSOR_TEXT_MAX];
    snprintf(ret, MODEL_LINE_MAX, "parameter %s%s", tensor_text(param->tensor, tensor),
             param->options.frozen ? ", frozen" : "");
}

static void say_buffer(const struct graph_buffer *buffer, char ret[MODEL_LINE_MAX])
{
    char tensor[TENSOR_TEXT_MAX];
    snprintf(ret, MODEL_LINE_MAX, "buffer %s, first %.9g, then t%d",
             tensor_text(buffer->tensor, tensor), (double)buffer->value,
             buffer->next ? buffer->next->id : buffer->tensor->id);
}

static void say_node(const struct wk_graph *graph, const struct node *node,
                     char ret[MODEL_LINE_MAX])
{
    char shape[TENSOR_TEXT_MAX], attributes[ATTRIBUTES_TEXT_MAX];
    size_t used = (size_t)snprintf(ret, MODEL_LINE_MAX, "%s(", node->row->name);
    for (int k = 0; k < node->n_in && used < MODEL_LINE_MAX; k++) {
        const struct wk_tensor *in = node->in[k];
        const char *comma = k ? ", " : "";
        if (in && in->name)
            used += (size_t)snprintf(ret + used, MODEL_LINE_MAX - used, "%s%s", comma, in->name);
        else
            used += (size_t)snprintf(ret + used, MODEL_LINE_MAX - used, in ? "%st%d" : "%s", comma,
                                     in ? in->id : 0);
    }
    if (used < MODEL_LINE_MAX) {
        (void)attributes_text(node, attributes);
        snprintf(ret + used, MODEL_LINE_MAX - used, ")%s%s%s in block %s: %s",
                 *attributes ? ", " : "", attributes, node->wide ? ", kept in f32," : "",
                 *graph->blocks[node->block] ? graph->blocks[node->block] : "0",
                 tensor_text(node->out[0], shape));
    }
}

static void say_loss(const struct graph_loss *loss, char ret[MODEL_LINE_MAX])
{
    const struct wk_tensor *input = loss->options.input ? tensor_input(loss->options.input) : NULL;
    snprintf(ret, MODEL_LINE_MAX, "loss %s of t%d: weight %.15g, denominator %d%s%s", loss->name,
             loss->losses->id, loss->options.weight, (int)loss->options.per, input ? " of " : "",
             input ? input->name : "");
}

static void say_line(const struct wk_model *model, int i, char ret[MODEL_LINE_MAX])
{
    const struct wk_graph *graph = of(model)->graph;
    if (i < graph->n_params)
        say_param(&graph->params[i], ret);
    else if (i < graph->n_params + graph->n_nodes)
        say_node(graph, graph->nodes[i - graph->n_params], ret);
    else if (i < graph->n_params + graph->n_nodes + graph->n_losses)
        say_loss(&graph->losses[i - graph->n_params - graph->n_nodes], ret);
    else
        say_buffer(&graph->buffers[i - graph->n_params - graph->n_nodes - graph->n_losses], ret);
}

/* FNV-1a over whole numbers. */
static uint64_t mix(uint64_t hash, int64_t number)
{
    return (hash ^ (uint64_t)number) * 1099511628211u;
}

static uint64_t mix_all(uint64_t hash, const int *numbers, int n)
{
    for (int i = 0; i < n; i++)
        hash = mix(hash, numbers[i]);
    return hash;
}

/* Of all that running the plan depends on. */
static uint64_t digest(const struct plan *plan)
{
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < plan->n_launches; i++) {
        const struct launch *l = &plan->launches[i];
        const int numbers[] = {
            (int)l->kind, l->backward, l->again,   l->index, l->node ? l->node->id : -1,
            l->d_out,     (int)l->add, l->scratch, l->cache};
        hash = mix_all(hash, numbers, sizeof(numbers) / sizeof(numbers[0]));
        hash = mix_all(hash, l->in, NODE_INPUTS_MAX);
        hash = mix_all(hash, l->d_in, NODE_INPUTS_MAX);
        hash = mix_all(hash, l->out, NODE_OUTPUTS_MAX);
    }
    for (int i = 0; i < plan->n_values; i++) {
        const struct plan_value *v = &plan->values[i];
        hash = mix(mix(hash, (int64_t)v->kind), v->index);
        hash = mix(mix(hash, (int64_t)v->type), v->count);
        hash = mix(hash, (int64_t)v->offset);
    }
    return hash;
}

static const char *policy_text(const struct wk_model *model, char ret[64])
{
    switch (model->recompute) {
    case WK_RECOMPUTE_NONE:
        return "none";
    case WK_RECOMPUTE_BLOCKS:
        return "blocks";
    case WK_RECOMPUTE_OPERATIONS:
        return "operations";
    case WK_RECOMPUTE_WITHIN:
        snprintf(ret, 64, "within %lld bytes", (long long)model->recompute_bytes);
        return ret;
    }
    return "?";
}

static void say_pass(struct wk_model *model, int64_t samples, int64_t length,
                     char ret[MODEL_LINE_MAX])
{
    struct graph_model *m = (struct graph_model *)model;
    struct trace_options trace = {.trains = true, .drops = model->dropout > 0};
    struct plan *plan = NULL;
    char policy[64];
    struct sizes sizes = pass_sizes(m, samples, length);
    size_t used = (size_t)snprintf(
        ret, MODEL_LINE_MAX, "dropout %g of seed %llu, label smoothing %g, recompute %s, in %s",
        (double)model->dropout, (unsigned long long)model->dropout_seed,
        (double)model->label_smoothing, policy_text(model, policy),
        wk_dtype_name(model->low ? model->low->type : WK_F32));
    if (samples < 1 || sizes.length > model->context || used >= MODEL_LINE_MAX)
        return;
    if (pass_plan(m, &trace, &sizes, &plan, NULL))
        snprintf(ret + used, MODEL_LINE_MAX - used, "; no plan for %lld samples",
                 (long long)samples);
    else
        snprintf(ret + used, MODEL_LINE_MAX - used,
                 "; %lld samples of length %lld in %zu bytes by plan %016llx", (long long)samples,
                 (long long)sizes.length, plan->region_bytes, (unsigned long long)digest(plan));
}

const struct words_ops graph_words_ops = {
    .lines = count_lines,
    .line = say_line,
    .pass = say_pass,
};
