/* Cuts gradients into buckets by the order in which a backward pass finishes them. A bucket is
 * summed together and starts when its last gradient is ready. The first is small so that summing
 * starts early, the others large so that each costs little. A bucket need not be contiguous: it is
 * a list of runs, each a range of the gradient arena. Adjacent runs are joined, so a model with
 * gradients in arena order has one run per bucket.
 *
 * Plain data except for its tables. Source: Li et al. 2020, "PyTorch Distributed", section 3.2.3.
 */
#ifndef PARALLEL_READY_H
#define PARALLEL_READY_H

#include <stddef.h>

#include "common/base/error.h"
#include "libworker/parallel/bucket.h"

struct param;

struct ready_run {
    size_t offset, count; /* elements of the arena */
};

struct ready_bucket {
    int first_run, n_runs;
    int params;
};

struct ready_plan {
    int n_params, n_buckets, n_runs;
    int *bucket_of;               /* [n_params] */
    struct ready_bucket *buckets; /* [n_params], n_buckets of them used */
    struct ready_run *runs;       /* [n_params], n_runs of them used */
};

int ready_plan_init(struct ready_plan *plan, int n_params, struct error *err); /* WK_ENOMEM */
void ready_plan_fini(struct ready_plan *plan); /* zeroed memory is allowed */

/* Cut `params`, which are in arena order in an arena of `count` elements, by `order`: each index
 * once. Gaps belong to the parameter before them, the one at the start to the first. */
void ready_plan_cut(struct ready_plan *plan, const struct param *params, size_t count,
                    const int *order, const struct bucket_sizes *sizes);

#endif
