/* The common part of rows' costs. A cost is known before anything is allocated: it depends on
 * shapes and types, never on data. Pure. */
#ifndef OP_COST_H
#define OP_COST_H

#include "libworker/graph/op.h"

static inline double cost_of(const struct op_tensor *tensor)
{
    return (double)tensor->count * (double)wk_dtype_bytes(tensor->type);
}

/* Every tensor once: forward the inputs and outputs; backward what the row keeps, the output's
 * gradient and the gradients of the inputs that have one. */
static inline double cost_bytes(const struct op_call *call, bool backward)
{
    const struct node *node = call->node;
    unsigned keeps = op_keeps(node);
    double bytes = backward ? 4.0 * (double)call->out[0].count : 0;
    for (int i = 0; i < node->n_in; i++) {
        if (!node->in[i])
            continue;
        if (!backward || (keeps & OP_IN(i)))
            bytes += cost_of(&call->in[i]);
        if (backward && node->in[i]->trains && (node->row->differentiable & OP_IN(i)))
            bytes += 4.0 * (double)call->in[i].count;
    }
    for (int i = 0; i < node->n_out; i++) {
        if (!backward || (keeps & OP_OUT(i)))
            bytes += cost_of(&call->out[i]);
    }
    return bytes;
}

/* This number of operations for each element of the result, in either direction. */
static inline void cost_elements(const struct op_call *call, bool backward, double flop,
                                 struct op_cost *ret)
{
    ret->flop = flop * (double)call->out[0].count;
    ret->bytes = cost_bytes(call, backward);
}

#endif
