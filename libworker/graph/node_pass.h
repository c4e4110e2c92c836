/* What a training pass makes of each node: for tables and drawings. Pure but for memory that is
 * freed on return. */
#ifndef GRAPH_NODE_PASS_H
#define GRAPH_NODE_PASS_H

#include "libworker/graph/chosen.h"
#include "libworker/graph/plan.h"

struct node_pass {
    bool runs;              /* false: the losses do not need it, or another node does its work */
    bool again;             /* computed again for the backward pass */
    enum wk_dtype type;     /* in which its result is kept */
    enum wk_dtype products; /* type of its products' factors; f32 if it has none */
};

struct training_pass {
    struct node_pass *nodes; /* [nodes]; node_passes_free */
    size_t peak_bytes;       /* of its region */
    size_t host_bytes;       /* of the values that it offloads (offload.h) */
    int n_offloaded;
    double again_flop;
    int n_again;
    struct chosen_kernels chosen;
};

/* Of a graph without an error, with these options of a plan; trace is filled in. Without losses no
 * node runs. WK_ENOMEM, as plan_new. */
int node_passes_new(const struct wk_graph *graph, const struct plan_options *options,
                    struct training_pass *ret, struct error *err);
void node_passes_free(struct training_pass *pass); /* zeroed is fine */

#endif
