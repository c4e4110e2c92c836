/* A graph as a table for people. */
#include <errno.h>

#include <worker/error.h>

#include "common/base/error.h"
#include "common/base/parse.h"
#include "libworker/graph/node_cost.h"
#include "libworker/graph/node_pass.h"

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

/* A table while it is written. */
struct sheet {
    const struct wk_graph *graph;
    struct sizes sizes;
    struct training_pass pass;
    FILE *out;
    double params, flop, bytes; /* of all rows so far */
};

/* "[samples, 8, 64] bf16": in the type that it is kept in. */
static const char *result_text(const struct node *node, enum wk_dtype type,
                               char ret[TENSOR_TEXT_MAX])
{
    struct wk_tensor result = *node->out[0];
    result.type = type;
    return tensor_text(&result, ret);
}

static void print_node(struct sheet *sheet, const struct node *node)
{
    char shape[TENSOR_TEXT_MAX], attributes[ATTRIBUTES_TEXT_MAX];
    char params[16], flop[16], bytes[16];
    const struct node_pass *pass = &sheet->pass.nodes[node->id];
    struct op_cost cost = node_cost(node, &sheet->sizes, false);
    double count = (double)node_new_params(node);
    sheet->params += count;
    sheet->flop += cost.flop;
    sheet->bytes += cost.bytes;
    fprintf(sheet->out, "  %-22s %-34s %-8s %10s %10s %10s %-5s %s\n", node->row->name,
            result_text(node, pass->type, shape),
            node->row->factors ? wk_dtype_name(pass->products) : "",
            count > 0 ? number_text(count, params) : "", number_text(cost.flop, flop),
            number_text(cost.bytes, bytes), pass->again ? "again" : "",
            attributes_text(node, attributes));
}

static void print_head(const struct sheet *sheet)
{
    char peak[FORMAT_MAX], flop[16];
    fprintf(sheet->out, "%s, a forward pass of %lld samples of length %lld\n", sheet->graph->name,
            (long long)sheet->sizes.samples, (long long)sheet->sizes.length);
    if (sheet->pass.peak_bytes)
        fprintf(sheet->out, "a training pass holds %s at the most; it computes %d again, %s FLOP\n",
                format_bytes(sheet->pass.peak_bytes, peak), sheet->pass.n_again,
                number_text(sheet->pass.again_flop, flop));
    fprintf(sheet->out, "  %-22s %-34s %-8s %10s %10s %10s\n", "operation", "result", "products",
            "parameters", "FLOP", "bytes");
}

static void print_sheet(struct sheet *sheet)
{
    char params[16], flop[16], bytes[16];
    const struct wk_graph *graph = sheet->graph;
    int block = -1;
    print_head(sheet);
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i]->block != block) {
            block = graph->nodes[i]->block;
            fprintf(sheet->out, "%s\n",
                    *graph->blocks[block] ? graph->blocks[block] : "(no block)");
        }
        print_node(sheet, graph->nodes[i]);
    }
    fprintf(sheet->out, "  %-22s %-34s %-8s %10s %10s %10s\n", "together", "", "",
            number_text(sheet->params, params), number_text(sheet->flop, flop),
            number_text(sheet->bytes, bytes));
}

static int check_print(const struct wk_graph *graph, const struct wk_graph_pass *pass,
                       const FILE *out, struct error *err)
{
    if (!graph || graph->error.code)
        return error_set(err, WK_EINVAL, "wk_graph_print: %s", wk_graph_error(graph));
    if (!out || !pass)
        return error_set(err, WK_EINVAL, "wk_graph_print without %s", out ? "a pass" : "a file");
    if (pass->samples < 1 || pass->length < 1)
        return error_set(err, WK_EINVAL,
                         "wk_graph_print of %lld samples of length %lld: both are at least 1",
                         (long long)pass->samples, (long long)pass->length);
    if (pass->compute != WK_F32 && pass->compute != WK_BF16 && pass->compute != WK_F16)
        return error_set(err, WK_EINVAL, "wk_graph_print in %s: it takes f32, bf16 or f16",
                         wk_dtype_name(pass->compute));
    return 0;
}

int wk_graph_print_pass(const struct wk_graph *graph, const struct wk_graph_pass *pass, FILE *out)
{
    struct sheet sheet = {.graph = graph, .out = out};
    struct error err = {0};
    if (check_print(graph, pass, out, &err))
        return error_keep(&err);
    sheet.sizes = (struct sizes){pass->samples, pass->length};
    struct plan_options options = {.sizes = sheet.sizes,
                                   .compute = pass->compute,
                                   .recompute = pass->recompute,
                                   .within = pass->bytes};
    if (node_passes_new(graph, &options, &sheet.pass, &err))
        return error_keep(&err);
    print_sheet(&sheet);
    node_passes_free(&sheet.pass);
    if (ferror(out)) {
        (void)error_set(&err, WK_EIO, "wk_graph_print could not write");
        return error_keep(&err);
    }
    return 0;
}

int wk_graph_print(const struct wk_graph *graph, int64_t samples, int64_t length, FILE *out)
{
    return wk_graph_print_pass(
        graph, &(struct wk_graph_pass){samples, length, WK_F32, WK_RECOMPUTE_NONE, 0}, out);
}
