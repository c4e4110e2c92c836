/* Windows of units, and the steps they form.
 *
 * A step begins with a batch (wk_next, wk_join). It is over when every optimizer has stepped in it.
 * It is also over when a source that dealt a window's batches in it is asked again while no window
 * is open. It counts unless all its windows were skipped. With one optimizer that is its wk_step.
 *
 * A program with several optimizers updates their models one after the other, so the generation may
 * break when only some have stepped. No update is undone. The step begins again with its batch. For
 * each unit, as many windows as the state already contains are closed without an update; their sums
 * are computed and discarded. The result is that of the undisturbed run, as long as a step of the
 * program depends only on its batch and wk_steps.
 *
 * Owned by the program's thread.
 */
#ifndef STEP_WINDOW_H
#define STEP_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/checkpoint/numbers.h"
#include "libworker/step/phase.h"

struct error;
struct unit;
struct wk_context;
struct wk_loader;

/* The source of a batch: a prepared loader's number, or the program itself (wk_join). */
enum { SOURCE_OWN = NUMBERS_LOADERS_MAX, SOURCES, SOURCE_NONE = -1 };

/* The step in progress. */
struct step_progress {
    enum step_phase phase; /* changed by phase_set only */
    int window;            /* passes in each unit's windows; known from the first batch on */
    bool ends;             /* no rank has more data: the next passes end the windows */
    int leader;            /* source of the first batch of this step, or of the last step */
    int dealt[SOURCES];    /* batches dealt in it, by source; after a break, those since then */
    double tokens;         /* of the global batches of this step */
    double weight;         /* of all ranks, from the last wk_join */
    uint64_t joins;        /* number of wk_join calls */
    bool weighed;          /* a pass has begun since the last wk_join */
    bool wants_save;       /* a window's sums had SAVE set */
    bool may_save;         /* and no rank was BUSY */
    bool skipped;          /* the last wk_step at a window's end skipped its update */
    bool told_lossless;    /* the notice about a missing loss was given */
    bool scheduler_due[NUMBERS_SCHEDULERS_MAX];
};

/* True if a batch from `source` (loader: NULL for own data) belongs to the step in progress. In a
 * broken generation: true if the batch has no effect, on the way to where the step began. */
bool window_joins(struct wk_context *ctx, int source, const struct wk_loader *loader);

/* Call before window_joins. WK_ESTATE if a source that has dealt its batches of the step is asked
 * again while a window is full and not stepped. Nothing would ever end such a step.
 * A window that is not full and gets no more passes is only a notice, because a program may want
 * such a long window. */
void window_check(struct wk_context *ctx, int source);

/* The generation changed inside wk_join: the program's next pass is VOID. */
void window_void(struct wk_context *ctx);

/* End the step in progress, because the next one begins. */
void window_end_step(struct wk_context *ctx);

/* A batch from `source` begins a step or joins the present one. */
void window_deal(struct wk_context *ctx, int source);

/* A backward pass begins. If it is the last of its window, its gradients are summed. WK_ESTATE. */
int window_begin_pass(struct unit *unit);

/* The pass's gradients are complete. Its loss joins the sums, which wk_backward finishes. The
 * device's failure. window_forget_loss: a loss that no pass has is not used. */
int window_end_pass(struct unit *unit, struct error *err);
void window_forget_loss(struct unit *unit);

/* The divisor of the window's mean: its passes, or the sum of the ranks' weights. And that mean,
 * once its sums are complete: NaN if no rank has set a loss. */
double window_weight(const struct unit *unit);
double window_loss(const struct unit *unit);

/* End the window: its step was done or skipped; or AGAIN, if the state already contains it. */
enum window_result { WINDOW_TAKEN, WINDOW_SKIPPED, WINDOW_AGAIN };
bool window_was_taken(const struct unit *unit);
void window_close(struct unit *unit, enum window_result result);

/* window_roll_back: the generation broke, so abandon the step in progress. window_begin_again:
 * begin it again in the next generation. */
void window_roll_back(struct wk_context *ctx);
void window_begin_again(struct wk_context *ctx);

#endif
