/* Numbers of an update that change from step to step, in the device's memory. Launches then have
 * equal arguments in all steps, so they are graphs of the device (device/replay.h).
 *
 *     noted_settle ─► noted_send ─► replay_begin ─► a launch a segment ─► replay_end
 *          └ for the copy of the step before     └ kernels read their segment's numbers
 *
 * Optimizers on whole tensors only (ops->note): they have a launch for each tensor, and some
 * kernels in it. The others have a few launches. Without graphs, and on devices without kernels of
 * their own, nothing is noted, and all numbers are arguments. The results have the same bits.
 * Inside optim/; owned by the optimizer, the device's thread. */
#ifndef OPTIM_NOTED_H
#define OPTIM_NOTED_H

#include <stdbool.h>
#include <stddef.h>

#include "libworker/device/replay.h"
#include "libworker/optim/optimizer_ops.h"

struct optimizer_noted {
    bool chosen;                  /* since the first step after a binding */
    struct noted_numbers *pinned; /* [n], of each segment; NULL: nothing is noted */
    struct noted_numbers *there;  /* [n], in the device's memory */
    int n;
    struct event sent; /* the copy of `pinned`; it may be written after that */
};

/* At the first step: whether updates repeat, of which an average kernel moves `bytes`. The device
 * has a remark on it. WK_ENOMEM: nothing has changed. */
int noted_choose(struct wk_optimizer *optimizer, double bytes, struct error *err);

/* Before a step: the host may write. The device's failure. */
int noted_settle(struct wk_optimizer *optimizer, struct error *err);

/* Copy this step's numbers (`steps` counts it). Launches that are enqueued later read them. */
void noted_send(struct wk_optimizer *optimizer);

/* Forget the graphs, free the memory. The queue has been waited for. */
void noted_close(struct wk_optimizer *optimizer);

/* Whether updates of this kind are graphs, and why, as a sentence without a full stop. Pure. */
enum { NOTED_REASON_BYTES = 128 };
void noted_reason(const struct optimizer_ops *ops, enum device_graphs choice, double bytes,
                  char ret[NOTED_REASON_BYTES]);

#endif
