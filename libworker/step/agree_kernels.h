/* One table of kernels for all ranks. Under ddp every rank applies the optimizer to the same sums.
 * CPUs that round differently (AVX-512, AVX2, without FMA) would let the parameters diverge
 * silently. All ranks therefore use the best table that every rank has. A generation with an older
 * CPU is slower; the next one without it is fast again. */
#ifndef STEP_AGREE_KERNELS_H
#define STEP_AGREE_KERNELS_H

#include "common/base/error.h"

struct kernel_table;
struct wk_context;

struct kernels {
    const struct kernel_table *best;   /* of this machine */
    const struct kernel_table *common; /* of this generation; NULL before one */
};

/* Set every unit's kernels to the best that all ranks have, with a notice if this rank has better
 * ones. All ranks call it, with prepared objects. */
int kernels_agree(struct wk_context *ctx, struct error *err);

#endif
