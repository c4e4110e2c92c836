/* Distributes the training of one model over data-parallel ranks. step/ is the same for each way to
 * do it: a table (strategy_ops.h) knows where parameters and gradients are, how gradients are
 * summed and which rank updates what. What all ways have in common is here.
 *
 *               begin, ready …            flush                finish
 *     RESTING ─────────────────► PASSING ───────► FLUSHED ─────────────────► RESTING
 *
 * strategy_drain leads from each of them to RESTING. The model announces its gradients from init to
 * fini. With the gradients of a window's last pass are summed `numbers` of the caller, which the
 * strategy only carries, and the usage of parameters (usage.h).
 *
 * Functions marked collective are called by all ranks in the same order where the strategy cuts
 * models; elsewhere they are local. One thread; any thread may abort the communicator meanwhile.
 */
#ifndef PARALLEL_STRATEGY_H
#define PARALLEL_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>

#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"
#include "libworker/parallel/groups.h"
#include "libworker/parallel/hook.h"
#include "libworker/parallel/own_passes.h"
#include "libworker/parallel/strategy_memory.h"
#include "libworker/parallel/strategy_options.h"
#include "libworker/parallel/usage.h"

struct strategy_ops;

enum strategy_phase { STRATEGY_RESTING, STRATEGY_PASSING, STRATEGY_FLUSHED };

struct strategy {
    const struct strategy_ops *ops; /* NULL: init was not called */
    struct strategy_memory memory;
    struct wk_model *model;
    struct narrowing narrowing;
    struct usage usage;
    struct own_passes own;
    struct optimizer_offload offload;
    bool unused_fine, unscaled, fill_later;
    enum strategy_phase phase;
    struct wk_comm *comm; /* of the last pass; NULL before one and after strategy_leave */
    bool last;            /* the pass under way sums its window */
    double share;   /* what gradients are still to be multiplied with before their sum; 1 at init */
    enum sums sums; /* of the last window that was */
};

/* Set up the model's memory and initial values. `st` must not move until fini. WK_ENOMEM. */
int strategy_init(struct strategy *st, struct wk_model *model,
                  const struct strategy_options *options, struct error *err);
void strategy_fini(struct strategy *st); /* zeroed memory is allowed; waits for running sums */

/* Once with every communicator, before it is used here: its ranks will sum in place. WK_ENOMEM. */
int strategy_meet(struct strategy *st, struct wk_comm *comm, struct error *err);

/* Set the layout of the communicator's ranks, once each has its part; collective. Give the
 * communicator up, before it is closed; a pass that never ended aborts it. */
int strategy_regroup(struct strategy *st, struct wk_comm *comm, const struct layout *layout,
                     struct error *err);
void strategy_leave(struct strategy *st); /* zeroed memory is allowed */

/* The sentence of the communicator or group that failed; "" without a failure. */
const char *strategy_sentence(const struct strategy *st);

/* The program's own hook, or NULL for the setting's. WK_EUNSUPPORTED unless it is DDP. */
int strategy_set_hook(struct strategy *st, const struct wk_gradient_hook *hook);

/* Parameters */

/* True if `fill_later` left initial values out. strategy_fill sets them: under DDP this rank's, for
 * it to send; else all ranks', of which rank 0 reads them. Collective. */
bool strategy_unfilled(const struct strategy *st);
int strategy_fill(struct strategy *st, struct wk_comm *comm, struct error *err);

/* The range of this rank's optimizer. */
const struct strategy_range *strategy_range(const struct strategy *st);

/* How the model is cut; NULL: every rank has all of it. */
const struct shard_plan *strategy_plan(const struct strategy *st);

/* Bind the optimizer to its range. */
int strategy_bind(struct strategy *st, struct wk_optimizer *optimizer, struct error *err);

/* The master parameters changed by other means than strategy_update (loaded, carried over): bring
 * what the model reads up to date. Collective. */
int strategy_refresh(struct strategy *st, struct wk_comm *comm);

/* This rank's piece of parameter `index` as the optimizer knows it, NULL if it has none; and which
 * element of the parameter it begins with. */
const struct param *strategy_own(const struct strategy *st, int index, size_t *ret_first);

/* Forward: collectives that this rank's pass needs. A share without samples makes them too. */
void strategy_use(struct strategy *st, struct wk_comm *comm);
int strategy_empty_pass(struct strategy *st, enum model_pass pass, struct error *err);

/* The master of all parameters in their `data`, until the next step; and what passes of the
 * program's own read. Collective. */
int strategy_gather(struct strategy *st, struct wk_comm *comm);
int strategy_gather_own(struct strategy *st, struct wk_comm *comm);

/* wk_parameter_data returns the master's address until the next strategy_gather_own. */
void strategy_show_master(struct strategy *st);

/* Gradients */

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

/* In a window's last pass, before its flush: this rank's numbers, at most STRATEGY_NUMBERS_MAX.
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
int strategy_first_wild(struct strategy *st, int *ret_index);

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
