#include "libworker/graph/node_pass.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/graph/op.h"
#include "libworker/graph/types.h"

/* The node's result is the launch's value `out`. */
static void note_node(const struct plan *plan, const struct launch *launch, int out,
                      struct training_pass *pass)
{
    const struct node *node = launch->sum && !out ? launch->sum : launch->node;
    struct node_pass *pass_of = &pass->nodes[node->id];
    if (launch->again) {
        pass_of->again = true;
        pass->n_again++;
        return;
    }
    pass_of->runs = true;
    pass_of->type = plan->values[launch->out[out]].type;
    if (node->row->factors)
        pass_of->products = types_compute(node, plan->options.compute);
}

static void note_launch(const struct plan *plan, const struct launch *launch,
                        struct training_pass *pass)
{
    note_node(plan, launch, 0, pass);
    if (launch->sum)
        note_node(plan, launch, 1, pass);
}

/* A view has the type of what it is a view of. */
static void note_views(const struct wk_graph *graph, struct node_pass *nodes)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct wk_tensor *base = tensor_base(graph->nodes[i]->out[0]);
        if (!graph->nodes[i]->row->view || !base->node)
            continue;
        nodes[i].type = nodes[base->node->id].type;
        nodes[i].runs = nodes[base->node->id].runs;
    }
}

static int plan_pass(const struct wk_graph *graph, const struct plan_options *options,
                     struct training_pass *pass, struct error *err)
{
    struct plan *plan;
    struct plan_options trains = *options;
    int parts = 2 * graph->n_blocks;
    int *blocks = malloc((size_t)parts * sizeof(*blocks));
    for (int i = 0; blocks && i < parts; i++)
        blocks[i] = -1;
    trains.trace = (struct trace_options){.trains = true, .drops = true};
    int rc = blocks ? plan_new(graph, &trains, blocks, &plan, err)
                    : error_set(err, WK_ENOMEM, "no memory to plan the model");
    free(blocks);
    if (rc)
        return rc;
    for (int i = 0; i < plan->n_launches; i++) {
        if (plan->launches[i].kind == LAUNCH_FORWARD)
            note_launch(plan, &plan->launches[i], pass);
    }
    note_views(graph, pass->nodes);
    chosen_find(plan, &pass->chosen);
    pass->peak_bytes = plan->region_bytes;
    pass->host_bytes = plan->host_bytes;
    pass->n_offloaded = plan->n_offloaded;
    pass->again_flop = plan->again_flop;
    plan_free(plan);
    return 0;
}

int node_passes_new(const struct wk_graph *graph, const struct plan_options *options,
                    struct training_pass *ret, struct error *err)
{
    struct training_pass pass = {.nodes = calloc((size_t)graph->n_nodes + 1, sizeof(*pass.nodes))};
    if (!pass.nodes)
        return error_set(err, WK_ENOMEM, "no memory to describe the model");
    for (int i = 0; i < graph->n_nodes; i++) {
        pass.nodes[i].type = graph->nodes[i]->out[0]->type;
        pass.nodes[i].products = WK_F32;
    }
    int rc = graph->n_losses ? plan_pass(graph, options, &pass, err) : 0;
    if (rc)
        node_passes_free(&pass);
    else
        *ret = pass;
    return rc;
}

void node_passes_free(struct training_pass *pass)
{
    free(pass->nodes);
    *pass = (struct training_pass){0};
}
