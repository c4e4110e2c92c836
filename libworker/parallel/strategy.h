/* One interface for all ways to distribute training over data-parallel ranks, so that step/ is the
 * same for each: where parameters and gradients are, how gradients are summed, which rank updates
 * what.
 *
 * `extras` are numbers of the step that are summed with the gradients at no extra cost. The usage
 * of parameters is summed with them (usage.h). One thread; any thread may abort the communicator
 * meanwhile.
 */
#ifndef PARALLEL_STRATEGY_H
#define PARALLEL_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>

#include "libworker/optim/optimizer.h"
#include "libworker/parallel/ddp.h"
#include "libworker/parallel/hook.h"
#include "libworker/parallel/own_passes.h"
#include "libworker/parallel/sharded.h"
#include "libworker/parallel/usage.h"

enum { STRATEGY_EXTRAS_MAX = 16 };

enum hook_kind { HOOK_SUM, HOOK_F16, HOOK_BF16, HOOK_POWERSGD };

struct strategy_options {
    bool is_sharded;              /* else DDP: `ddp`, `hook` and `powersgd` too */
    struct sharded_options shard; /* its narrowing is DDP's too */
    struct ddp_options ddp;
    enum hook_kind hook;
    struct powersgd_options powersgd;
    const char *offload; /* folder of the optimizer's state, or NULL; borrowed */
    bool unused_fine;    /* parameters need not be announced on every rank */
    bool measures;       /* strategy_squares is called first for every window's sums */
    bool unscaled;       /* gradients have no loss scale */
};

struct strategy {
    bool ready; /* init was called */
    bool is_sharded;
    struct wk_model *model;
    struct narrowing narrowing;
    float *extras; /* [STRATEGY_EXTRAS_MAX], then `usage` */
    struct usage usage;
    bool unused_fine, unscaled;
    const char *offload;
    bool fill_later;
    bool last;      /* the pass under way sums its window */
    double share;   /* what gradients are still to be multiplied with before their sum; 1 at init */
    enum sums sums; /* of the last window that was */
    /* DDP: */
    float *params, *grads;  /* [model->count], [grad_count] */
    struct wk_arena *arena; /* memory of grads */
    size_t grad_count;
    uint16_t *low; /* [model->count], what products read; NULL in float */
    struct ddp ddp;
    struct grad_hook hook; /* the setting's */
    struct own_passes own;
    /* else: */
    struct sharded shard;
};

/* Set up the model's memory and initial values. WK_ENOMEM. */
int strategy_init(struct strategy *st, struct wk_model *model,
                  const struct strategy_options *options, struct error *err);
void strategy_fini(struct strategy *st); /* zeroed memory is allowed; waits for running sums */

/* Once with every communicator, before it is used here: its ranks will sum in place. WK_ENOMEM. */
int strategy_meet(struct strategy *st, struct wk_comm *comm, struct error *err);

/* The program's own hook, or NULL for the setting's. WK_EUNSUPPORTED unless it is DDP. */
int strategy_set_hook(struct strategy *st, const struct wk_gradient_hook *hook);

/* Set the layout of the communicator's ranks, once each has its part; and remove it before the
 * communicator is closed. Does nothing under DDP. Collective; local. */
int strategy_regroup(struct strategy *st, struct wk_comm *comm, const struct layout *layout,
                     struct error *err);
void strategy_leave(struct strategy *st);

/* Initial values where shard.fill_later left them out: under DDP this rank's, for it to send; else
 * all ranks', of which one reads them. Nothing without it. Collective when sharded. */
int strategy_fill(struct strategy *st, struct wk_comm *comm, struct error *err);

/* The range of this rank's optimizer: a table of parameters over `count` elements. */
struct strategy_range {
    const struct param *params;
    int n_params;
    size_t count;
    float *data, *grads;
};
struct strategy_range strategy_range(struct strategy *st);

/* Bind the optimizer to that range; its steps also write a whole low copy, if there is one. */
int strategy_bind(struct strategy *st, struct wk_optimizer *optimizer, struct error *err);

/* The master parameters changed by other means than strategy_update (loaded, carried over): bring
 * what the model reads up to date. Collective when sharded. */
int strategy_refresh(struct strategy *st, struct wk_comm *comm);

/* This rank's piece of parameter `index` as the optimizer knows it, NULL if it has none; and which
 * element of the parameter it begins with. */
const struct param *strategy_own(struct strategy *st, int index, size_t *ret_first);

/* Forward: collectives that this rank's pass needs. A share without samples makes them too. */
void strategy_use(struct strategy *st, struct wk_comm *comm);
int strategy_empty_pass(struct strategy *st, enum model_pass pass, struct error *err);

/* The master of all parameters in their `data`, until the next step; and what passes of the
 * program's own read. Collective when sharded. */
int strategy_gather(struct strategy *st, struct wk_comm *comm);
int strategy_gather_own(struct strategy *st, struct wk_comm *comm);

/* wk_parameter_data returns the master's address until the next strategy_gather_own. */
void strategy_show_master(struct strategy *st);

/* Set the loss scale of the next pass's gradients. */
void strategy_scaled(struct strategy *st, double scale);

/* Before a pass writes: beside the scale they are multiplied with `share`. `held`: gradients of
 * this window's earlier passes wait for theirs. 0, of a pass that adds nothing, changes nothing. */
void strategy_share(struct strategy *st, double share, bool held);

/* Begin a backward pass, the last of its window or not; and end it, waiting for its sums. Returns
 * the code of a collective, or WK_ESTATE with a sentence for parameters that were left out wrongly.
 */
void strategy_begin(struct strategy *st, struct wk_comm *comm, bool last);
void strategy_ready(struct strategy *st, int index);
void strategy_flush(struct strategy *st);
int strategy_finish(struct strategy *st, struct error *err);

/* After the window's last finish: whether every sum of it was finite then, before anything was
 * clipped; the same on all ranks. Found out while summing (bf16, f16; ddp in float on several
 * ranks) or by strategy_squares; else by one pass over the sums that this rank updates by. The code
 * of a collective. Collective when sharded. */
int strategy_finite(struct strategy *st, bool *ret);

/* The first parameter in the model's order with a non-finite sum, or -1. A pass over all.
 * Collective when sharded. */
int strategy_first_wild(struct strategy *st, int *ret_index);

/* Wait for whatever is under way on an aborted communicator and forget the window. */
void strategy_drain(struct strategy *st);

/* Sum of squares of the summed gradient. Collective when sharded. */
int strategy_squares(struct strategy *st, double *ret);

/* Clamp the summed gradient to [-limit, limit], element by element, in this rank's update range. A
 * window with non-finite values stays unchanged, because clamping would hide them. As
 * strategy_finite. */
int strategy_clamp(struct strategy *st, float limit);

/* strategy_update: one optimizer step of this rank's range, with gradients times `scale`.
 * strategy_spread: send the others what they need of it; collective when sharded. If only
 * strategy_spread fails, this rank's range is one step ahead of theirs.
 */
int strategy_update(struct strategy *st, struct wk_optimizer *optimizer, double scale,
                    struct error *err);
int strategy_spread(struct strategy *st, struct wk_comm *comm, struct error *err);

void strategy_clear(struct strategy *st); /* gradients and extras */

/* Drop narrow gradients of the program's own passes for a pass that never began. */
void strategy_forget(struct strategy *st);

#endif
