/* The gradients of a strategy's model: backward passes, their sums over the ranks, and the update
 * (strategy.h).
 *
 *               begin, ready …            flush                finish
 *     RESTING ─────────────────► PASSING ───────► FLUSHED ─────────────────► RESTING
 *
 * strategy_drain leads from each of them to RESTING. Threads and "collective" are strategy.h's.
 */
#ifndef PARALLEL_STRATEGY_GRADS_H
#define PARALLEL_STRATEGY_GRADS_H

#include "libworker/parallel/strategy.h"

/* Set the loss scale of the next pass's gradients. */
void strategy_scaled(struct strategy *st, double scale);

/* Before a pass writes: beside the scale they are multiplied with `share`. `held`: gradients of
 * this window's earlier passes wait for theirs. 0, of a pass that adds nothing, changes nothing. */
void strategy_share(struct strategy *st, double share, bool held);

/* Begin a backward pass, the last of its window or not; and end it, waiting for its sums. Between
 * begin and flush the model, or the program through strategy_ready, announces gradients; outside
 * nothing happens. Returns the code of a collective, or WK_ESTATE with a sentence for parameters
 * that were left out wrongly. */
void strategy_begin(struct strategy *st, struct wk_comm *comm, bool last);
void strategy_ready(struct strategy *st, int index);
void strategy_flush(struct strategy *st);
int strategy_finish(struct strategy *st, struct error *err);

/* In a window's last pass, before its flush: this rank's numbers, at most STEP_NUMBERS_MAX.
 * After its finish: their sums over the ranks, in the same order, until strategy_clear. */
void strategy_say(struct strategy *st, const float *numbers, int count);
const float *strategy_heard(const struct strategy *st);

/* After the window's last finish: whether every sum of it was finite then, before anything was
 * clipped; the same on all ranks. Found out while summing (bf16, f16; ddp in float on several
 * ranks) or by strategy_squares; else by one pass over the sums that this rank updates by. The code
 * of a collective. Collective. */
int strategy_finite(struct strategy *st, bool *ret);

/* The first parameter in the model's order with a non-finite sum, or -1. A pass over all.
 * Collective. */
int strategy_first_nonfinite(struct strategy *st, int *ret_index);

/* Wait for whatever is under way on an aborted communicator and forget the window. */
void strategy_drain(struct strategy *st); /* zeroed memory is allowed */

/* Sum of squares of the summed gradient. Collective. */
int strategy_squares(struct strategy *st, double *ret);

/* Clamp the summed gradient to [-limit, limit], element by element, in this rank's update range. A
 * window with non-finite values stays unchanged, because clamping would hide them. As
 * strategy_finite. */
int strategy_clamp(struct strategy *st, float limit);

/* strategy_update: one optimizer step of this rank's range, with gradients times `scale`.
 * strategy_spread: send the others what they need of it; collective. If only strategy_spread fails,
 * this rank's range is one step ahead of theirs. */
int strategy_update(struct strategy *st, struct wk_optimizer *optimizer, double scale,
                    struct error *err);
int strategy_spread(struct strategy *st, struct wk_comm *comm, struct error *err);

/* Gradients and numbers of the window are not wanted any more. Zeroed memory is allowed. */
void strategy_clear(struct strategy *st);

/* Drop narrow gradients of the program's own passes for a pass that never began. */
void strategy_forget(struct strategy *st);

#endif
