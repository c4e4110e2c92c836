#include "libworker/graph/describe.h"

#include "libworker/graph/op.h"

struct op_tensor describe_tensor(const struct wk_tensor *tensor, const struct sizes *sizes)
{
    struct op_tensor described = {.type = tensor->type, .dims = tensor->dims, .count = 1};
    for (int i = 0; i < tensor->dims; i++) {
        described.shape[i] = dim_size(tensor->shape[i], sizes);
        described.count *= described.shape[i];
    }
    return described;
}

void describe_node(const struct node *node, const struct sizes *sizes, struct op_call *ret)
{
    *ret = (struct op_call){.node = node, .compute = WK_F32};
    for (int i = 0; i < node->n_in; i++) {
        if (!node->in[i])
            continue;
        ret->in[i] = describe_tensor(node->in[i], sizes);
        if (node->in[i]->trains && (node->row->differentiable & OP_IN(i)))
            ret->d_in[i] = ret->in[i];
    }
    for (int i = 0; i < node->n_out; i++)
        ret->out[i] = describe_tensor(node->out[i], sizes);
    ret->d_out = ret->out[0];
}
