#include "cli/model_graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "libworker/graph/node_cost.h"

struct sums {
    int64_t params;
    double flop, bytes;
};

static const char *block_name(const struct wk_graph *graph, int block)
{
    return *graph->blocks[block] ? graph->blocks[block] : "(no block)";
}

/* A node's figures of the forward pass, added to `sums`. */
static struct sums measure_node(const struct model_view *view, const struct node *node,
                                struct sums *sums)
{
    struct sizes sizes = {view->samples, view->length};
    struct op_cost cost = node_cost(node, &sizes, false);
    struct sums own = {node_new_params(node), cost.flop, cost.bytes};
    sums->params += own.params;
    sums->flop += own.flop;
    sums->bytes += own.bytes;
    return own;
}

static struct sums measure_block(const struct model_view *view, int block)
{
    struct sums sums = {0};
    for (int i = 0; i < view->graph->n_nodes; i++)
        if (view->graph->nodes[i]->block == block)
            (void)measure_node(view, view->graph->nodes[i], &sums);
    return sums;
}

static void cell_sums(struct table *table, const struct sums *sums)
{
    char count[FORMAT_MAX], flop[FORMAT_MAX], bytes[FORMAT_MAX];
    table_cell(table, "%s", sums->params ? count_text((double)sums->params, count) : "");
    table_cell(table, "%s", sums->flop > 0 ? count_text(sums->flop, flop) : "");
    table_cell(table, "%s", sums->bytes > 0 ? format_bytes((uint64_t)sums->bytes, bytes) : "");
}

/* tensor_text without the type at its end. */
static const char *shape_of(const struct wk_tensor *tensor, char text[TENSOR_TEXT_MAX])
{
    char *type = strrchr(tensor_text(tensor, text), ' ');
    if (type)
        *type = '\0';
    return text;
}

static void row_of_block(struct table *table, const char *name, const struct sums *sums)
{
    table_cell(table, "%s", name);
    table_cell(table, "%s", "");
    table_cell(table, "%s", "");
    table_cell(table, "%s", "");
    cell_sums(table, sums);
    table_cell(table, "%s", "");
}

static void row_of_node(struct table *table, const struct node *node, const struct node_pass *pass,
                        const struct sums *sums)
{
    char shape[TENSOR_TEXT_MAX];
    table_cell(table, "  %s", node->row->name);
    table_cell(table, "%s", wk_dtype_name(pass->type));
    table_cell(table, "%s", shape_of(node->out[0], shape));
    table_cell(table, "%s", node->row->factors ? wk_dtype_name(pass->products) : "");
    cell_sums(table, sums);
    table_cell(table, "%s", pass->again ? "yes" : "");
}

void model_graph_chosen(const struct chosen_kernels *chosen)
{
    for (int i = 0; i < chosen->n; i++)
        printf("%s (%d of them)\n", chosen->list[i].text, chosen->list[i].launches);
}

void model_graph_table(const struct model_view *view)
{
    static const char *const titles[] = {"OPERATION", "TYPE",   "SHAPE", "PRODUCTS", ">PARAMETERS",
                                         ">FLOP",     ">BYTES", "AGAIN", NULL};
    char peak[FORMAT_MAX], host[FORMAT_MAX];
    const struct wk_graph *graph = view->graph;
    struct table table;
    struct sums all = {0};
    int block = -1;
    table_init(&table, titles);
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (node->block != block) {
            struct sums of_block = measure_block(view, node->block);
            row_of_block(&table, block_name(graph, node->block), &of_block);
            block = node->block;
        }
        struct sums own = measure_node(view, node, &all);
        row_of_node(&table, node, &view->pass->nodes[node->id], &own);
    }
    row_of_block(&table, "together", &all);
    printf("%s: %" PRId64 " parameters; a forward pass of %" PRId64 " x %" PRId64
           "; training holds %s at the most\n",
           graph->name, all.params, view->samples, view->length,
           format_bytes(view->pass->peak_bytes, peak));
    table_print(&table, stdout, "no operations");
    table_fini(&table);
    if (view->pass->n_offloaded)
        printf("%d of its values, %s, wait in the host's memory for the backward pass\n",
               view->pass->n_offloaded, format_bytes(view->pass->host_bytes, host));
    model_graph_chosen(&view->pass->chosen);
}

/* The text of a tensor begins with its name. */
static void dot_tensor(const struct wk_tensor *tensor)
{
    static const char *const shapes[] = {[TENSOR_INPUT] = "oval",
                                         [TENSOR_PARAM] = "note",
                                         [TENSOR_BUFFER] = "box3d",
                                         [TENSOR_VALUE] = "box"};
    char text[TENSOR_TEXT_MAX];
    printf("    t%d [shape=%s, style=solid, label=\"%s\\n%s\"];\n", tensor->id,
           shapes[tensor->kind], tensor->name,
           tensor_text(tensor, text) + strlen(tensor->name) + 1);
}

static void dot_node(const struct node *node, const struct node_pass *pass)
{
    printf("    n%d [label=\"%s\"%s];\n", node->id, node->row->name,
           pass->again ? ", style=\"rounded,dashed\"" : "");
}

/* What is made or held in a block. */
static void dot_block(const struct model_view *view, int block)
{
    const struct wk_graph *graph = view->graph;
    printf("  subgraph cluster_%d {\n    label=\"%s\";\n", block, block_name(graph, block));
    for (int i = 0; i < graph->n_tensors; i++) {
        const struct wk_tensor *tensor = graph->tensors[i];
        if (tensor->block == block && tensor->name && tensor->kind != TENSOR_INPUT)
            dot_tensor(tensor);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i]->block == block)
            dot_node(graph->nodes[i], &view->pass->nodes[i]);
    }
    printf("  }\n");
}

static void dot_edge(const struct model_view *view, const struct wk_tensor *from,
                     const struct node *to)
{
    char shape[TENSOR_TEXT_MAX];
    if (from->kind != TENSOR_VALUE)
        printf("  t%d -> n%d;\n", from->id, to->id);
    else
        printf("  n%d -> n%d [label=\" %s %s\"];\n", from->node->id, to->id, shape_of(from, shape),
               wk_dtype_name(view->pass->nodes[from->node->id].type));
}

static void dot_results(const struct wk_graph *graph)
{
    for (int i = 0; i < graph->n_losses; i++)
        printf("  l%d [shape=oval, style=bold, label=\"%s\"];\n  n%d -> l%d;\n", i,
               graph->losses[i].name, graph->losses[i].losses->node->id, i);
}

/* The graphs are of libworker's own models: their names need no escapes. */
void model_graph_dot(const struct model_view *view)
{
    const struct wk_graph *graph = view->graph;
    printf("digraph \"%s\" {\n  rankdir=TB;\n  nodesep=0.2;\n  ranksep=0.3;\n"
           "  graph [style=\"rounded,filled\", color=\"#b0b0b0\", fillcolor=\"#f6f6f6\", "
           "fontname=Helvetica, fontsize=11];\n"
           "  node [shape=box, style=rounded, fontname=Helvetica, fontsize=10];\n"
           "  edge [fontname=Helvetica, fontsize=8, color=\"#606060\", arrowsize=0.6];\n",
           graph->name);
    for (int i = 0; i < graph->n_inputs; i++)
        dot_tensor(graph->inputs[i]);
    for (int block = 0; block < graph->n_blocks; block++)
        dot_block(view, block);
    for (int i = 0; i < graph->n_nodes; i++) {
        for (int k = 0; k < graph->nodes[i]->n_in; k++) {
            if (graph->nodes[i]->in[k])
                dot_edge(view, graph->nodes[i]->in[k], graph->nodes[i]);
        }
    }
    dot_results(graph);
    printf("}\n");
}

static int set_sums(struct arena *arena, struct tree *map, const struct sums *sums)
{
    int rc = tree_map_set(arena, map, "parameters", tree_integer(arena, sums->params));
    if (!rc)
        rc = tree_map_set(arena, map, "flop", tree_number(arena, sums->flop));
    if (!rc)
        rc = tree_map_set(arena, map, "bytes", tree_number(arena, sums->bytes));
    return rc;
}

static int set_operation(const struct model_view *view, const struct node *node,
                         struct arena *arena, struct tree *map)
{
    struct sums sums = {0};
    char shape[TENSOR_TEXT_MAX], attributes[ATTRIBUTES_TEXT_MAX];
    const struct wk_tensor *result = node->out[0];
    const struct node_pass *pass = &view->pass->nodes[node->id];
    (void)measure_node(view, node, &sums);
    int rc = tree_map_set(arena, map, "operation", tree_string(arena, node->row->name));
    if (!rc)
        rc = tree_map_set(arena, map, "type", tree_string(arena, wk_dtype_name(pass->type)));
    if (!rc)
        rc = tree_map_set(arena, map, "shape", tree_string(arena, shape_of(result, shape)));
    if (!rc && node->row->factors)
        rc =
            tree_map_set(arena, map, "products", tree_string(arena, wk_dtype_name(pass->products)));
    if (!rc)
        rc = tree_map_set(arena, map, "again", tree_bool(arena, pass->again));
    if (!rc)
        rc = tree_map_set(arena, map, "attributes",
                          tree_string(arena, attributes_text(node, attributes)));
    if (!rc)
        rc = set_sums(arena, map, &sums);
    return rc;
}

static int add_operations(const struct model_view *view, int block, struct arena *arena,
                          struct tree *list)
{
    int rc = 0;
    for (int i = 0; i < view->graph->n_nodes && !rc; i++) {
        const struct node *node = view->graph->nodes[i];
        if (node->block != block)
            continue;
        struct tree *map = tree_map(arena);
        rc = tree_list_add(list, map);
        if (!rc)
            rc = set_operation(view, node, arena, map);
    }
    return rc;
}

static int add_block(const struct model_view *view, int block, struct arena *arena,
                     struct tree *list)
{
    struct sums sums = measure_block(view, block);
    struct tree *map = tree_map(arena), *operations = tree_list(arena);
    int rc = tree_list_add(list, map);
    if (!rc)
        rc = tree_map_set(arena, map, "name", tree_string(arena, view->graph->blocks[block]));
    if (!rc)
        rc = set_sums(arena, map, &sums);
    if (!rc)
        rc = tree_map_set(arena, map, "operations", operations);
    if (!rc)
        rc = add_operations(view, block, arena, operations);
    return rc;
}

static int set_chosen(const struct chosen_kernels *chosen, struct arena *arena, struct tree *root)
{
    struct tree *list = tree_list(arena);
    int rc = tree_map_set(arena, root, "kernels", list);
    for (int i = 0; i < chosen->n && !rc; i++) {
        struct tree *map = tree_map(arena);
        rc = tree_list_add(list, map);
        if (!rc)
            rc =
                tree_map_set(arena, map, "launches", tree_integer(arena, chosen->list[i].launches));
        if (!rc)
            rc = tree_map_set(arena, map, "chosen", tree_string(arena, chosen->list[i].text));
    }
    return rc;
}

int model_graph_tree(const struct model_view *view, struct arena *arena, struct tree *root)
{
    struct tree *blocks = tree_list(arena);
    struct sums all = {0};
    for (int i = 0; i < view->graph->n_nodes; i++)
        (void)measure_node(view, view->graph->nodes[i], &all);
    int rc = tree_map_set(arena, root, "model", tree_string(arena, view->graph->name));
    if (!rc)
        rc = tree_map_set(arena, root, "samples", tree_integer(arena, view->samples));
    if (!rc)
        rc = tree_map_set(arena, root, "length", tree_integer(arena, view->length));
    if (!rc)
        rc = tree_map_set(arena, root, "peak_bytes",
                          tree_integer(arena, (int64_t)view->pass->peak_bytes));
    if (!rc)
        rc = tree_map_set(arena, root, "host_bytes",
                          tree_integer(arena, (int64_t)view->pass->host_bytes));
    if (!rc)
        rc = set_sums(arena, root, &all);
    if (!rc)
        rc = set_chosen(&view->pass->chosen, arena, root);
    if (!rc)
        rc = tree_map_set(arena, root, "blocks", blocks);
    for (int i = 0; i < view->graph->n_blocks && !rc; i++)
        rc = add_block(view, i, arena, blocks);
    return rc;
}
