/* A graph as a table for people. */
#include <errno.h>

#include <worker/error.h>

#include "common/base/error.h"
#include "libworker/graph/node_cost.h"

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

static void print_node(const struct node *node, const struct sizes *sizes, FILE *out,
                       struct totals *totals)
{
    char shape[TENSOR_TEXT_MAX], params[16], flop[16], bytes[16];
    struct op_cost cost = node_cost(node, sizes, false);
    double count = (double)node_new_params(node);
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
