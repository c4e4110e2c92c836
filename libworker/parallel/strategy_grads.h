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

/* Blocks of a program's own passes (wk_enter_block), where it is leaving one and entering another.
 * Backward, parameters of a block that is left are announced, those of block 0 by the last leave.
 * Collective where gathers are by block. */
int strategy_enter_block(struct strategy *st, int block, enum model_pass pass, struct error *err);
int strategy_leave_block(struct strategy *st, int block, enum model_pass pass, struct error *err);

/* In a window's last pass, before its flush: this rank's numbers, at most STEP_NUMBERS_MAX.
 * After its finish: their sums over the ranks, in the same order, until strategy_clear. */
void strategy_say(struct strategy *st, const float *numbers, int count);
const float *strategy_heard(const struct strategy *st);

/* The first parameter in the model's order with a non-finite sum, or -1. A pass over all, which
 * waits. Collective. */
int strategy_first_nonfinite(struct strategy *st, int *ret_index);

/* Wait for whatever is under way on an aborted communicator and forget the window. */
void strategy_drain(struct strategy *st); /* zeroed memory is allowed */

/* What becomes of the window's sums, after its last finish (optim/verdict.h): open, then any of
 * measure and clamp, then judge, then update; and what the device found, which waits. None of the
 * others does, but for collectives. */
struct verdict *strategy_verdict(struct strategy *st);

/* `scale`: factor of the sums in the update. */
void strategy_open(struct strategy *st, double scale);

/* Whether losses that the device has are summed over the ranks there: strategy_sum_losses does that
 * with the verdict's, before strategy_judge. Else the ranks say them. Collective. */
bool strategy_sums_losses(const struct strategy *st);
int strategy_sum_losses(struct strategy *st, struct error *err);

/* Sum of squares of the summed gradient, and so its norm. Collective. */
int strategy_measure(struct strategy *st);

/* Clamp the summed gradient, times the scale, to [-most, most], element by element, in this rank's
 * update range. A window with non-finite values stays unchanged, because clamping would hide them.
 * Collective. */
int strategy_clamp(struct strategy *st, double most);

/* Whether the update is done: `loss` and every sum are finite, before anything was clipped; the
 * same on all ranks. The sums were checked while summing (bf16, f16; ddp in float on several ranks)
 * or measured; else this measures them. Collective. */
int strategy_judge(struct strategy *st, double loss);

/* strategy_update: one optimizer step of this rank's range, by the verdict.
 * strategy_spread: send the others what they need of it; collective. If only strategy_spread fails,
 * this rank's range is one step ahead of theirs. */
int strategy_update(struct strategy *st, struct wk_optimizer *optimizer, struct error *err);
int strategy_spread(struct strategy *st, struct wk_comm *comm, struct error *err);

/* Gradients and numbers of the window are not wanted any more. Zeroed memory is allowed. */
void strategy_clear(struct strategy *st);

/* Drop narrow gradients of the program's own passes for a pass that never began. */
void strategy_forget(struct strategy *st);

#endif
