/* A graph as a table for people. */
#include <errno.h>

#include <worker/error.h>

#include "common/base/error.h"
#include "libworker/graph/describe.h"
#include "libworker/graph/op.h"

/* 1234 -> "1.23 k". */
static const char *number_text(double value, char ret[16])
{
    static const char units[] = " kMGTPE";
    int unit = 0;
    for (; value >= 1000 && unit < 6; unit++)
        value /= 1000;
    if (unit)
        snprintf(ret, 16, "%.3g %c", value, units[unit]);
    else
        snprintf(ret, 16, "%.0f", value);
    return ret;
}

struct totals {
    double params, flop, bytes;
};

/* A parameter counts where it is read first. */
static bool is_first_use(const struct node *node, const struct wk_tensor *param)
{
    const struct wk_graph *graph = param->graph;
    for (int i = 0; i < node->id; i++) {
        for (int k = 0; k < graph->nodes[i]->n_in; k++) {
            if (graph->nodes[i]->in[k] == param)
                return false;
        }
    }
    return true;
}

static double params_of(const struct node *node)
{
    double count = 0;
    for (int i = 0; i < node->n_in; i++) {
        const struct wk_tensor *in = node->in[i];
        if (in && in->kind == TENSOR_PARAM && is_first_use(node, in))
            count += (double)describe_tensor(in, &(struct sizes){1, 1}).count;
    }
    return count;
}

/* Without a rule of its own an operation only moves its tensors. */
static struct op_cost cost_of(const struct node *node, const struct sizes *sizes)
{
    struct op_call call;
    struct op_cost cost = {0};
    describe_node(node, sizes, &call);
    if (node->row->cost) {
        node->row->cost(&call, false, &cost);
        return cost;
    }
    for (int i = 0; i < node->n_in && !node->row->view; i++)
        cost.bytes += (double)call.in[i].count * (double)wk_dtype_bytes(call.in[i].type);
    for (int i = 0; i < node->n_out && !node->row->view; i++)
        cost.bytes += (double)call.out[i].count * (double)wk_dtype_bytes(call.out[i].type);
    return cost;
}

static void print_node(const struct node *node, const struct sizes *sizes, FILE *out,
                       struct totals *totals)
{
    char shape[TENSOR_TEXT_MAX], params[16], flop[16], bytes[16];
    struct op_cost cost = cost_of(node, sizes);
    double count = params_of(node);
    totals->params += count;
    totals->flop += cost.flop;
    totals->bytes += cost.bytes;
    fprintf(out, "  %-22s %-34s %10s %10s %10s\n", node->row->name,
            tensor_text(node->out[0], shape), count > 0 ? number_text(count, params) : "",
            number_text(cost.flop, flop), number_text(cost.bytes, bytes));
}

int wk_graph_print(const struct wk_graph *graph, int64_t samples, int64_t length, FILE *out)
{
    struct sizes sizes = {samples, length};
    struct totals totals = {0};
    char params[16], flop[16], bytes[16];
    int block = -1;
    struct error err = {0};
    if (!graph || graph->error.code)
        (void)error_set(&err, WK_EINVAL, "wk_graph_print: %s", wk_graph_error(graph));
    else if (samples < 1 || length < 1 || !out)
        (void)error_set(&err, WK_EINVAL,
                        "wk_graph_print of %lld samples of length %lld: both are at least 1",
                        (long long)samples, (long long)length);
    if (err.code)
        return error_keep(&err);
    fprintf(out, "%s, a forward pass of %lld samples of length %lld\n", graph->name,
            (long long)samples, (long long)length);
    fprintf(out, "  %-22s %-34s %10s %10s %10s\n", "operation", "result", "parameters", "FLOP",
            "bytes");
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i]->block != block) {
            block = graph->nodes[i]->block;
            fprintf(out, "%s\n", *graph->blocks[block] ? graph->blocks[block] : "(no block)");
        }
        print_node(graph->nodes[i], &sizes, out, &totals);
    }
    fprintf(out, "  %-22s %-34s %10s %10s %10s\n", "together", "",
            number_text(totals.params, params), number_text(totals.flop, flop),
            number_text(totals.bytes, bytes));
    if (ferror(out)) {
        (void)error_set(&err, WK_EIO, "wk_graph_print could not write");
        return error_keep(&err);
    }
    return 0;
}
