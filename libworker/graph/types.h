/* The type in which each value is kept.
 *
 *     in f32                        everything is f32
 *     in bf16 and fp16, narrow      what only products read, since they round it anyway; results of
 *                                   products; what elementwise operations and moves make of these
 *                          f32      the residual stream, norms, softmax, statistics, losses,
 *                                   outputs that are asked for, what wk_graph_keep_f32 exempts,
 *                                   everything else
 *
 * Sums are in f32 in every operation. As torch's autocast does, but a norm between products is
 * narrow too. Pure. */
#ifndef GRAPH_TYPES_H
#define GRAPH_TYPES_H

#include "libworker/graph/trace.h"

/* ret_types [tensors]. WK_ENOMEM. */
int types_choose(const struct wk_graph *graph, const struct trace *trace, enum wk_dtype compute,
                 enum wk_dtype *ret_types);

/* The type in which a node computes, in a pass that computes in this one. */
static inline enum wk_dtype types_compute(const struct node *node, enum wk_dtype compute)
{
    return node->wide ? WK_F32 : compute;
}

#endif
