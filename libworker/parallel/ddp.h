/* Data parallelism: every rank holds the whole model, gradients are summed over the ranks while the
 * backward pass still runs.
 *
 * Gradients live in one arena, buckets are ranges of it, so nothing is copied. A bucket's
 * all-reduce starts when its last gradient is announced and all buckets before it have started: the
 * order is the same on every rank whatever order gradients come in.
 *
 * One thread. The communicator may be aborted by any thread meanwhile; then the code of the failure
 * comes out of ddp_finish and the arena's content is undefined. Source: Li et al. 2020, section 3.
 */
#ifndef PARALLEL_DDP_H
#define PARALLEL_DDP_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/comm.h>

#include "common/base/error.h"
#include "libworker/parallel/bucket.h"

struct ddp {
    float *grads; /* [count], borrowed */
    size_t count;
    struct bucket *buckets; /* [n_buckets] */
    int n_buckets;
    int *bucket_of; /* [n_params] */
    int n_params;
    bool *ready;           /* [n_params], in this backward pass */
    int *missing;          /* [n_buckets], gradients not yet announced */
    struct wk_work **work; /* [n_buckets], started ones */
    struct wk_comm *comm;  /* of this pass; borrowed */
    bool syncing;
    int started;
    int failure; /* first code a collective was refused with */
    bool watch;  /* find out whether the sums are finite: costs no pass of its own */
    int *wild;   /* [n_buckets], which are not */
};

/* `grads[count]`: all parameters and whatever else is to be summed behind them. */
struct ddp_arena {
    const struct param *params;
    int n_params;
    float *grads;
    size_t count;
};
int ddp_init(struct ddp *ddp, const struct ddp_arena *arena, const struct bucket_sizes *sizes,
             struct error *err);
void ddp_fini(struct ddp *ddp); /* waits for nothing: ddp_finish first */

/* A backward pass begins whose gradients are to be summed over `comm`. */
void ddp_begin(struct ddp *ddp, struct wk_comm *comm);

/* params[index].grad is final in this pass. Outside begin…finish nothing happens; twice is once. */
void ddp_ready(struct ddp *ddp, int index);

/* The pass is over: parameters nobody announced take part as they are. Starts what is left. */
void ddp_flush(struct ddp *ddp);

/* Wait for all sums. 0, also without ddp_begin, or the first failure (WK_EPEER, WK_EABORT, …). */
int ddp_finish(struct ddp *ddp);

/* After ddp_finish of a watched pass: whether every sum is finite; the same on all ranks. */
bool ddp_finite(const struct ddp *ddp);

#endif
