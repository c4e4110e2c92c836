/* The sizes of a matmul's products, for all devices' kernels. Pure. */
#ifndef OP_MATMUL_H
#define OP_MATMUL_H

#include "libworker/graph/op.h"

enum { MATMUL_A, MATMUL_B };

struct matmul_attributes {
    bool turned[2]; /* a, b */
};

static inline bool matmul_is_turned(const struct op_call *call, int input)
{
    return ((const struct matmul_attributes *)call->node->attributes)->turned[input];
}

/* The sizes of one product, and how many there are. */
struct matmul_sizes {
    int64_t m, n, k, count;
};

static inline struct matmul_sizes matmul_sizes_of(const struct op_call *call)
{
    const struct op_tensor *a = &call->in[MATMUL_A], *c = &call->out[0];
    struct matmul_sizes batch = {.m = c->shape[c->dims - 2],
                                 .n = c->shape[c->dims - 1],
                                 .k =
                                     a->shape[a->dims - (matmul_is_turned(call, MATMUL_A) ? 2 : 1)],
                                 .count = 1};
    for (int i = 0; i < c->dims - 2; i++)
        batch.count *= c->shape[i];
    return batch;
}

#endif
