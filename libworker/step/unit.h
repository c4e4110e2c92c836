/* A unit of a context: one model, its optimizer if it has one, their distribution over the ranks,
 * and the window of gradients in progress. A context has one unit per prepared model, in that
 * order, all under one strategy and one precision. Private to step/.
 *
 *       wk_backward … wk_backward (last of its window)      wk_step
 *       open: micro > 0                          summing ──────────► closed, passed + 1
 *
 * Each unit opens and closes its own windows. window.c decides which windows form a step of the
 * context, and which ones a repeated step leaves out. Owned by the program's thread.
 */
#ifndef STEP_UNIT_H
#define STEP_UNIT_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/worker.h>

#include "libworker/checkpoint/numbers.h"
#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"
#include "libworker/parallel/strategy.h"
#include "libworker/precision/scaler.h"
#include "libworker/step/consensus.h"

struct wk_context;

struct unit {
    struct wk_context *ctx;
    struct wk_model *model;         /* borrowed */
    struct wk_optimizer *optimizer; /* borrowed; NULL: no optimizer uses this model's gradients */
    struct strategy strategy;
    struct scaler scaler; /* fp16 */
    bool recomputes;      /* because of the setting; the model's own choice is restored later */

    /* The window in progress. */
    int micro;             /* backward passes in it */
    bool no_sync;          /* the program's choice, across windows */
    bool summing;          /* its last pass has begun: the sums are running */
    bool reduced;          /* they are complete */
    bool clipped;          /* wk_clip_grad_norm was called */
    bool begun;            /* custom models: wk_grad_ready has begun this pass */
    double grad_scale;     /* factor for gradients in wk_step */
    double pass_loss;      /* of the last forward pass or wk_set_loss */
    bool has_loss;         /* one was set since the end of the last backward pass */
    double share;          /* factor of the loss for passes of means over their share; or 1 */
    double weights;        /* of all ranks, from wk_join; else 0 */
    struct consensus said; /* this rank's numbers for its sums */
    uint64_t joined;       /* the last wk_join counted in it; 0 before one */
    bool on_dealt;         /* the pass uses a loader's batch, which has its own divisor */

    /* The step in progress. */
    int passed;                  /* windows closed since it began, or began again */
    struct unit_numbers numbers; /* windows that the state contains: done, taken */

    bool stepped; /* the last wk_step updated the parameters */
    double loss;  /* of the last window taken; NaN before one, or if no loss was set */
    double norm;  /* of its gradient, if measured since the last report; else 0 */
};

#define units_each(unit, ctx)                                                                      \
    for ((unit) = (ctx)->units; (unit) < (ctx)->units + (ctx)->n_units; (unit)++)

/* The unit of a prepared model or optimizer, or NULL. */
struct unit *unit_of_model(const struct wk_model *model);
struct unit *unit_of_optimizer(const struct wk_optimizer *optimizer);

/* The result of a call on an object without a unit: it was not prepared, or not even made. The
 * sentence is stored for the thread. */
int unit_missing(const void *object, enum wk_object_kind kind, const char *call);

/* unit_kind_name: "a model". unit_why_null: append ": " and why the object could not be made, if
 * known. */
const char *unit_kind_name(enum wk_object_kind kind);
void unit_why_null(enum wk_object_kind kind, struct error *err);

/* For messages: 1 for the first prepared model. In names of metrics: "" for the only one. */
int unit_number(const struct unit *unit);

/* Connect the model and the optimizer with the unit, and disconnect them. */
void unit_bind_model(struct unit *unit);
void unit_bind_optimizer(struct unit *unit);
void unit_unbind(struct unit *unit); /* the model too */

/* Forget the window in progress. */
void unit_clear(struct unit *unit);

/* The unit that represents the context in reports: the first with an optimizer, else the first;
 * NULL without any. */
struct unit *units_main(struct wk_context *ctx);

/* True if a window is open. */
bool units_open(const struct wk_context *ctx);

/* Number of windows of all units that were taken or skipped since the first step, and of those
 * taken. Of two members the one with more windows is further; equal numbers mean equal parameters.
 */
struct units_count {
    int64_t windows, taken;
};
struct units_count units_count(const struct wk_context *ctx);

/* strategy.h's functions of the same name, for all units in order. They do nothing before the units
 * are bound. err has the sentence. */
int units_meet(struct wk_context *ctx, struct error *err);
int units_regroup(struct wk_context *ctx, const struct layout *layout, struct error *err);
int units_refresh(struct wk_context *ctx, struct error *err);
int units_fill(struct wk_context *ctx, struct error *err);
void units_leave(struct wk_context *ctx);
void units_drain(struct wk_context *ctx);

/* unit_gather_own: a model's parameters, where the program's own passes read them.
 * unit_gather_master: the master copy (strategy.h). They do nothing in a broken generation. A
 * failure breaks the generation; the code is returned if it is sticky. */
void unit_gather_own(struct unit *unit);
int unit_gather_master(struct unit *unit);
void units_gather(struct wk_context *ctx); /* all custom models' own */

/* Update the bound pointers of programs to the present addresses of parameters. */
void units_show_bound(struct wk_context *ctx);

/* This rank has `share` of the next passes' data. Passes that return means over their share are
 * multiplied by it. */
void units_share(struct wk_context *ctx, double share);

/* The sentence of the failed communicator or group; "" without a failure. */
const char *units_sentence(const struct wk_context *ctx);

#endif
