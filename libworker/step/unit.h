/* A unit of a context: one model, the optimizer over it if there is one, how both are spread over
 * the ranks, and the window of gradients under way. A context has as many as models were prepared,
 * in that order, all under one strategy and one precision. Private to step/.
 *
 *     wk_backward … wk_backward (last of its window)      wk_step
 *     open: micro > 0                          summing ──────────► closed, passed + 1
 *
 * Each unit opens and closes windows on its own; which of them make a step of the context, and what
 * a repeated step leaves out, is window.c's matter. Owned by the program's thread.
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

struct wk_context;
struct unit;

/* A prepared optimizer's operations table is this copy, which is how wk_step finds the unit. */
struct bound_optimizer {
    struct optimizer_ops ops; /* first: the optimizer points to it */
    const struct optimizer_ops *original;
    struct unit *unit;
};

struct unit {
    struct wk_context *ctx;
    struct wk_model *model;         /* borrowed */
    struct wk_optimizer *optimizer; /* borrowed; NULL: nothing takes this model's gradients */
    struct bound_optimizer bound;
    struct strategy strategy;
    struct scaler scaler; /* fp16 */
    bool recomputes;      /* because the setting says so; the model's own wish comes back after */

    /* The window under way. */
    int micro;         /* backward passes in it */
    bool no_sync;      /* the program's wish, across windows */
    bool summing;      /* its last pass has begun: the sums are on their way */
    bool reduced;      /* they are complete */
    bool clipped;      /* wk_clip_grad_norm was called */
    bool begun;        /* custom models: wk_grad_ready has begun this pass */
    double grad_scale; /* what wk_step multiplies gradients with */
    double pass_loss;  /* of the last forward pass or wk_set_loss */
    bool has_loss;     /* there was one since the end of the last backward pass */
    double share;      /* what the loss counts, of passes that give means over their share; or 1 */
    double weights;    /* of all ranks, where wk_join told them; else 0 */
    uint64_t joined;   /* the wk_join that was counted in it last; 0 before one */
    bool on_dealt;     /* the pass is on a loader's batch, which has its own divisor */

    /* The step under way. */
    int passed;                  /* windows closed since it began, or began again */
    struct unit_numbers numbers; /* of windows that the state holds: done, taken */

    bool stepped; /* the last wk_step updated the parameters */
    double loss;  /* of the last window taken; NaN before one, and where none was set */
    double norm;  /* of its gradient, where it was measured since the last report; else 0 */
};

#define units_each(unit, ctx)                                                                      \
    for ((unit) = (ctx)->units; (unit) < (ctx)->units + (ctx)->n_units; (unit)++)

/* The unit a model or optimizer was prepared as, or NULL. */
struct unit *unit_of_model(const struct wk_model *model);
struct unit *unit_of_optimizer(const struct wk_optimizer *optimizer);

/* What a call on an object of no unit returns: it was not prepared, or not even made. The sentence
 * stays with the thread. */
int unit_missing(const void *object, enum wk_object_kind kind, const char *call);

/* "a model"; and for NULL in its place, ": " and why it could not be made, or "". */
const char *unit_kind_name(enum wk_object_kind kind);
void unit_why_null(enum wk_object_kind kind, struct error *err);

/* For sentences: 1 for the first model prepared. And for names: "" where that is the only one. */
int unit_number(const struct unit *unit);

/* The model's announcements; the argument is the unit. */
void unit_grad_ready(void *arg, int index);

/* Let the model and the optimizer lead to the unit, and back. */
void unit_bind_model(struct unit *unit);
void unit_bind_optimizer(struct unit *unit);
void unit_unbind(struct unit *unit); /* the model too */

/* Forget the window under way. */
void unit_clear(struct unit *unit);

/* The one whose figures stand for the context: the first with an optimizer, else the first; NULL
 * without any. */
struct unit *units_main(struct wk_context *ctx);

/* Whether a window is open. */
bool units_open(const struct wk_context *ctx);

/* Windows of all time that were taken or skipped, by all units, and those taken: of two members the
 * one with more windows is further, and equal numbers mean equal parameters. */
struct units_count {
    int64_t windows, taken;
};
struct units_count units_count(const struct wk_context *ctx);

/* strategy.h's functions of the same name, for all units in order; nothing before they are bound.
 * Sentences go to err. */
int units_meet(struct wk_context *ctx, struct error *err);
int units_regroup(struct wk_context *ctx, const struct layout *layout, struct error *err);
int units_refresh(struct wk_context *ctx, struct error *err);
int units_fill(struct wk_context *ctx, struct error *err);
void units_leave(struct wk_context *ctx);
void units_drain(struct wk_context *ctx);

/* A model's parameters, where passes of the program's own read them, or the master (strategy.h);
 * nothing in a broken generation. A failure breaks the generation; its code where it is sticky. */
void unit_gather_own(struct unit *unit);
int unit_gather_master(struct unit *unit);
void units_gather(struct wk_context *ctx); /* all custom models' own */

/* Tell programs that bound them where parameters are now. */
void units_show_bound(struct wk_context *ctx);

/* This rank has `share` of the coming passes' data: those of models whose passes give means over
 * their share are multiplied with it. */
void units_share(struct wk_context *ctx, double share);

/* What failed, of whichever communicator or group it was; "" if nothing. */
const char *units_sentence(const struct wk_context *ctx);

#endif
