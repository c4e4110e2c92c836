/* Which works of a training pass are computed again for its backward pass, so that what that reads
 * of them is not kept; and when. Bits do not depend on it.
 *
 *     chosen works ── settle ──► those of them that are needed, each before the first backward
 *                                kernel that needs it
 *
 * Only a value's own block computes it again: other blocks read the forward pass' one.
 *
 * A budget. Each block has two candidates: its cheap works, then all of it. The order
 * is by FLOP for each byte that is then not kept. Of equal ones the earliest block is first: what
 * is kept of early blocks is there the longest. Works that read another block's parameters belong
 * to no candidate. So ranks with other batches still gather the same blocks in the same order.
 *
 * Owned by the plan's builder; one thread.
 */
#ifndef GRAPH_RECOMPUTE_H
#define GRAPH_RECOMPUTE_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/nn.h>

#include "libworker/graph/keep.h"
#include "libworker/graph/trace.h"

enum {
    RECOMPUTE_CHEAP_FLOP = 16, /* of a cheap work at most, for each element of its results */
    RECOMPUTE_LEVELS_MAX = 64,
};

/* What of a pass does not change while works are chosen; all borrowed. */
struct recompute_pass {
    const struct wk_graph *graph;
    const struct trace *trace;
    const struct sizes *sizes;
    const struct keep *keep;
};

struct recompute_candidate {
    int block;
    bool whole;            /* all of the block, else its cheap works */
    double flop_each_byte; /* for each byte that is no longer kept */
};

struct recompute_gain { /* of the candidates of a block, by `whole` */
    double flop[2], bytes[2];
    bool taken[2];
};

struct recompute {
    struct recompute_pass pass;
    bool *chosen;  /* [works] */
    bool *again;   /* [tensors]: made by a work that is computed again */
    int *before;   /* [works]: it is computed again before this work's backward kernel; or -1 */
    int *maker;    /* [tensors]: the work, or -1 */
    bool *cheap;   /* [works] */
    bool *outside; /* [tensors]: another block reads the memory, or it is a result of the pass */
    struct recompute_gain *gains;           /* [blocks] */
    struct recompute_candidate *candidates; /* [n_candidates], in that order */
    int n_candidates;
};

/* Nothing is chosen. WK_ENOMEM; recompute_fini accepts zeroed memory. */
int recompute_init(struct recompute *r, const struct recompute_pass *pass);
void recompute_fini(struct recompute *r);

/* Choose by a policy that is no budget, and settle. */
void recompute_choose(struct recompute *r, enum wk_recompute policy);

/* The number of levels of a budget, above level 0 at which nothing is computed again. Sorts the
 * candidates. */
int recompute_levels(struct recompute *r);

/* Choose the candidates of this level, and settle. Each level has all of those below it. */
void recompute_level(struct recompute *r, int level, int levels);

/* FLOP of what is computed again. */
double recompute_flop(const struct recompute *r);

#endif
