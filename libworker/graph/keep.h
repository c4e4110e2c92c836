/* What a plan has in memory of each value, and what of it the backward pass reads. It is in rows of
 * op.h, and in a device's own kernels where they keep something else beside a result: probabilities
 * in fewer bytes, or nothing (device/kernels.h). From such kernels it is also known which gradients
 * may be in the compute type.
 *
 * Owned by the plan's builder; one thread.
 */
#ifndef GRAPH_KEEP_H
#define GRAPH_KEEP_H

#include <stdbool.h>

#include "libworker/graph/op_call.h"
#include "libworker/graph/plan.h"

struct keep {
    struct op_tensor *form; /* [tensors]: type and sizes in memory; data is NULL */
    bool *kept;             /* [tensors]: a backward kernel reads the memory */
    unsigned *reads;        /* [works]: values that its backward kernel reads, OP_IN and OP_OUT */
    unsigned *narrows;      /* [works]: gradients that it may have in the compute type */
    bool *bends;            /* [works]: as op_args' */
};

/* WK_ENOMEM. keep_fini accepts zeroed memory. */
int keep_init(struct keep *keep, const struct wk_graph *graph, const struct trace *trace,
              const struct plan_options *options);
void keep_fini(struct keep *keep);

#endif
