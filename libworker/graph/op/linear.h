/* The weights of a linear's call: up to three, with their outputs side by side, of which adjacent
 * ones are multiplied as one. What all devices' kernels go by. Pure. */
#ifndef OP_LINEAR_H
#define OP_LINEAR_H

#include "libworker/graph/op.h"

enum { LINEAR_PARTS_MAX = 3 };

struct linear_attributes {
    bool turned; /* weights are [out, in] */
};

static inline bool linear_is_turned(const struct node *node)
{
    return ((const struct linear_attributes *)node->attributes)->turned;
}

/* The weights, or those of their gradients, that are multiplied as one. */
struct linear_part {
    struct op_tensor weight;
    int64_t at, out; /* columns of the result */
};

static inline int64_t linear_outputs(const struct op_tensor *weight, bool turned)
{
    return weight->shape[turned ? 0 : 1];
}

static inline bool is_next(const struct op_tensor *a, const struct op_tensor *b)
{
    return a->type == b->type &&
           (const uint8_t *)a->data + (size_t)a->count * wk_dtype_bytes(a->type) == b->data;
}

/* Turned weights that are adjacent in memory are one. */
static inline bool are_joined(const struct op_tensor *weights, int n)
{
    bool joined = true;
    for (int i = 1; i < n && joined; i++)
        joined = weights[i - 1].data && weights[i].data && is_next(&weights[i - 1], &weights[i]);
    return joined;
}

static inline int linear_weights(const struct node *node)
{
    int n = 0;
    while (n < LINEAR_PARTS_MAX && node->in[LINEAR_WEIGHTS + n])
        n++;
    return n;
}

/* `tensors` are inputs or their gradients; parts without data are left out. */
static inline int linear_parts(const struct op_call *call, const struct op_tensor *tensors,
                               bool join, struct linear_part parts[LINEAR_PARTS_MAX])
{
    const struct op_tensor *weights = tensors + LINEAR_WEIGHTS;
    int n = linear_weights(call->node), n_parts = 0;
    bool turned = linear_is_turned(call->node);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        int64_t out = linear_outputs(&call->in[LINEAR_WEIGHTS + i], turned);
        if (join && i > 0) {
            parts[0].out += out;
            parts[0].weight.count += weights[i].count;
        } else if (weights[i].data) {
            parts[n_parts++] = (struct linear_part){weights[i], at, out};
        }
        at += out;
    }
    return n_parts;
}

static inline bool linear_joins(const struct op_call *call, const struct op_tensor *tensors)
{
    int n = linear_weights(call->node);
    return n > 1 && linear_is_turned(call->node) && are_joined(tensors + LINEAR_WEIGHTS, n);
}

#endif
