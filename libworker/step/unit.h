/* A unit of a context: one model, its optimizer if it has one, their distribution over the ranks,
 * and the window of gradients in progress. A context has one unit per prepared model, in that
 * order, all under one strategy and one precision. Private to step/.
 *
 *       wk_backward … wk_backward, the window's last           wk_step
 *       OPEN: micro > 0              SUMMING, COMPLETE ──────────► EMPTY, passed + 1     (sums.h)
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
#include "libworker/nn/count.h"
#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"
#include "libworker/parallel/strategy.h"
#include "libworker/precision/scaler.h"
#include "libworker/step/sums.h"

struct wk_context;

/* Denominators of the program's own batches (counts.h). */
struct own_counts {
    int batches; /* counted in this window; 0: none */
    int left;    /* passes on them that were not made yet */
    double divisors[MODEL_LOSSES_MAX];
};

struct unit {
    struct wk_context *ctx;
    struct wk_model *model;         /* borrowed */
    struct wk_optimizer *optimizer; /* borrowed; NULL: no optimizer uses this model's gradients */
    struct strategy strategy;
    struct scaler scaler; /* fp16 */
    bool recomputes;      /* because of the setting; the model's own choice is restored later */

    /* The window in progress. */
    int micro;        /* backward passes in it */
    bool no_sync;     /* the program's choice, across windows */
    bool begun;       /* custom models: wk_grad_ready has begun this pass */
    double pass_loss; /* of the last forward pass or wk_set_loss */
    bool keeps_loss;  /* that of the forward pass is on the device instead */
    bool has_loss;    /* one was set since the end of the last backward pass */
    double share;     /* factor of the loss for passes of means over their share; or 1 */
    double weights;   /* of all ranks, from wk_join; else 0 */
    struct window_sums sums;
    uint64_t joined; /* the last wk_join counted in it; 0 before one */
    bool on_dealt;   /* the pass's batch was counted, or a loader's: it has its own divisor */
    struct own_counts counts;

    /* The step in progress. */
    int passed;                  /* windows closed since it began, or began again */
    struct unit_numbers numbers; /* windows that the state contains: done, taken */

    bool stepped;                /* the last wk_step updated the parameters */
    struct wk_step_numbers last; /* of the last window complete */
    double loss;      /* of the last window with an update; NaN before one, or if no loss was set */
    bool loss_is_new; /* set since the last step was reported */
    double norm;      /* of its gradient, if measured since the last report; else 0 */
};

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

/* Forget the window in progress. */
void unit_clear(struct unit *unit);

#endif
