/* The part of a graph that is computed for one purpose, after rewriting: works in build order. A
 * work is a node with the tensors that it really reads and writes.
 *
 * Rewriting: nodes that no root needs are left out, and inputs that the purpose does not read
 * (op.h: trained_in, evaluated_in). A dropout that drops nothing is its input. The
 * sum of a linear layer's result and an earlier value becomes the layer's residual. Bits do not
 * depend on anything but the graph and these options.
 *
 * Owned by the plan's builder; freed with trace_fini.
 */
#ifndef GRAPH_TRACE_H
#define GRAPH_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/graph/graph.h"

struct trace_options {
    bool trains;      /* for a backward pass: roots are the losses and the buffers' updates */
    bool drops;       /* the model's own share is above 0 */
    bool losses;      /* evaluation: the losses are roots too */
    uint64_t outputs; /* outputs that are roots: bits by number */
    bool decode;      /* go on from the positions in a cache */
    bool fills; /* with decode: only for the cache; the roots are what it has of the outputs */
};

struct work {
    const struct node *node;
    struct wk_tensor *in[NODE_INPUTS_MAX], *out[NODE_OUTPUTS_MAX];
};

struct trace {
    struct work *works; /* [n], in build order */
    int n;
    int *users;              /* [tensors]: works that read it */
    int *last;               /* [tensors]: the last work that reads its memory, or -1 */
    struct wk_tensor **same; /* [tensors]: what it is after rewriting; itself for most */
};

/* WK_ENOMEM. */
int trace_init(struct trace *trace, const struct wk_graph *graph,
               const struct trace_options *options, struct error *err);
void trace_fini(struct trace *trace); /* zeroed is fine */

/* The tensor is a loss, an output or a buffer's update: read besides by what follows the works. */
bool trace_is_root(const struct wk_graph *graph, const struct trace *trace,
                   const struct wk_tensor *tensor);

#endif
