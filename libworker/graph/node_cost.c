#include "libworker/graph/node_cost.h"

#include "libworker/graph/describe.h"

static double bytes_of(const struct op_tensor *tensor)
{
    return (double)tensor->count * (double)wk_dtype_bytes(tensor->type);
}

struct op_cost node_cost(const struct node *node, const struct sizes *sizes, bool backward)
{
    struct op_call call;
    struct op_cost cost = {0};
    describe_node(node, sizes, &call);
    if (node->row->cost) {
        node->row->cost(&call, backward, &cost);
        return cost;
    }
    for (int i = 0; i < node->n_in && !node->row->view; i++)
        cost.bytes += bytes_of(&call.in[i]);
    for (int i = 0; i < node->n_out && !node->row->view; i++)
        cost.bytes += bytes_of(&call.out[i]);
    return cost;
}

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

int64_t node_new_params(const struct node *node)
{
    int64_t count = 0;
    for (int i = 0; i < node->n_in; i++) {
        const struct wk_tensor *in = node->in[i];
        if (in && in->kind == TENSOR_PARAM && is_first_use(node, in))
            count += describe_tensor(in, &(struct sizes){1, 1}).count;
    }
    return count;
}
