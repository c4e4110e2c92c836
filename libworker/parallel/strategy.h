/* Distributes the training of one model over data-parallel ranks. step/ is the same for each way to
 * do it: a table (strategy_ops.h) knows where parameters and gradients are, how gradients are
 * summed and which rank updates what. What all ways have in common is here.
 *
 * This header has the model's memory, the ranks and the parameters; strategy_grads.h has backward
 * passes, their sums and the update. The model announces its gradients from init to fini. The
 * numbers of the step (step_numbers.h) are summed with the gradients of a window's last pass: those
 * of the caller, and the usage of parameters.
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
#include "libworker/parallel/step_numbers.h"
#include "libworker/parallel/strategy_memory.h"
#include "libworker/parallel/strategy_options.h"
#include "libworker/parallel/usage.h"
#include "libworker/parallel/wire.h"

struct strategy_ops;

enum strategy_phase { STRATEGY_RESTING, STRATEGY_PASSING, STRATEGY_FLUSHED };

struct strategy {
    const struct strategy_ops *ops; /* NULL: init was not called */
    struct strategy_memory memory;
    struct step_numbers numbers;
    struct wire wire; /* of what the model and the step's numbers need of other ranks */
    struct wk_model *model;
    struct narrowing narrowing;
    struct usage usage;
    struct own_passes own;
    struct optimizer_offload offload;
    bool unused_fine, unscaled, fill_later;
    enum strategy_phase phase;
    struct wk_comm *comm; /* of the last pass; NULL before one and after strategy_leave */
    bool last;            /* the pass under way sums its window */
    bool met;             /* the pass has met other ranks in an operation */
    double share;   /* what gradients are still to be multiplied with before their sum; 1 at init */
    enum sums sums; /* of the last window that was */
};

/* Set up the model's memory and initial values. `st` must not move until fini. WK_ENOMEM;
 * WK_EUNSUPPORTED: the model's device lacks a kernel that these settings need. */
int strategy_init(struct strategy *st, struct wk_model *model,
                  const struct strategy_options *options, struct error *err);
void strategy_fini(struct strategy *st); /* zeroed memory is allowed; waits for running sums */

/* Once with every communicator, before it is used here: its ranks will sum in place. WK_ENOMEM. */
int strategy_meet(struct strategy *st, struct wk_comm *comm, struct error *err);

/* Set the layout of the communicator's ranks, once each has its part; collective. */
int strategy_regroup(struct strategy *st, struct wk_comm *comm, const struct layout *layout,
                     struct error *err);

/* Before it is closed: abort it if a pass never ended; give it up. Zeroed memory is allowed. */
void strategy_settle(struct strategy *st);
void strategy_leave(struct strategy *st);

/* After a wait: why the device's collectives before it may have failed, with a sentence, or 0. Of a
 * forward pass only if it had some. */
int strategy_check(const struct strategy *st, struct error *err);
int strategy_check_pass(const struct strategy *st, struct error *err);

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

/* Before a forward pass, also one without samples: its collectives are of these ranks. */
void strategy_use(struct strategy *st, struct wk_comm *comm);

/* The collectives of a pass of the program's own that has no samples. */
int strategy_empty_pass(struct strategy *st, enum model_pass pass, struct error *err);

/* The master of all parameters in their `data`, until the next step; and what passes of the
 * program's own read, unless they enter blocks. Collective. */
int strategy_gather(struct strategy *st, struct wk_comm *comm);
int strategy_gather_own(struct strategy *st, struct wk_comm *comm);

/* wk_parameter_data returns the master's address until the next strategy_gather_own. */
void strategy_show_master(struct strategy *st);

#endif
