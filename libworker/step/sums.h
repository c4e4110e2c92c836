/* The sums of a window: this rank's numbers, their sums over all ranks, and what becomes of the
 * summed gradient. The host reads a window's sums only here, and not before they are complete. Only
 * sums_finish and sums_result wait.
 *
 *            begin           begin, of the last pass           finish
 *      EMPTY ───────► OPEN ────────────────────────► SUMMING ──────────► COMPLETE
 *        └────────────────────────────────────────────►
 *
 * sums_clear leads from each of them to EMPTY: the window was closed, or it is given up. A last
 * pass adds its numbers in SUMMING, before its flush. The rest is for COMPLETE.
 *
 * Functions that return a code are collective where the models are cut; the code is then that of a
 * collective. Owned by the program's thread.
 */
#ifndef STEP_SUMS_H
#define STEP_SUMS_H

#include <stdbool.h>

#include "common/base/error.h"
#include "libworker/step/consensus.h"

struct unit;

enum window_phase { WINDOW_EMPTY, WINDOW_OPEN, WINDOW_SUMMING, WINDOW_COMPLETE };

struct window_sums {
    enum window_phase phase;
    struct consensus said;  /* this rank's */
    struct consensus heard; /* all ranks', once complete */
    bool kept;              /* the device has losses that nothing here contains yet */
    bool clipped;           /* sums_clip was called */
};

/* What the device found out about complete sums. */
struct sums_result {
    double norm; /* before it was clipped; 0 if sums_clip was not called */
    bool finite; /* the gradients, and what wk_step multiplies them with */
};

/* True from the begin of the window's last pass on. */
static inline bool sums_begun(const struct window_sums *sums)
{
    return sums->phase == WINDOW_SUMMING || sums->phase == WINDOW_COMPLETE;
}

/* A pass of the window begins, the last one or not. */
void sums_begin(struct unit *unit, bool last);

/* A pass of the window has ended. `loss` times `share` is in its sum, or where `kept` that of the
 * model's last forward pass, which only the device knows (sums_keep_loss). */
struct pass_loss {
    double loss, share;
    bool kept;
};
void sums_add_loss(struct unit *unit, const struct pass_loss *pass);

/* The forward pass's loss stays on the device until then. */
void sums_keep_loss(struct unit *unit);

/* In a window's last pass, before its flush. Where other ranks hear it from the host, it waits for
 * kept losses. The device's failure, with err's sentence. */
int sums_say(struct unit *unit, struct error *err);

/* Wait for the sums, which wk_step multiplies with `scale`. err has the sentence. */
int sums_finish(struct unit *unit, double scale, struct error *err);

/* Measure the norm of the gradient as wk_step would apply it, and scale it to at most max_norm; 0
 * only measures. */
int sums_clip(struct unit *unit, double max_norm);

/* Limit each element, as wk_step would apply it, to [-most, most]. A window with non-finite values
 * stays unchanged. */
int sums_limit(struct unit *unit, double most);

/* Decide whether the update changes anything: only if all of them, before anything was limited,
 * their factor and the window's loss are finite. */
int sums_judge(struct unit *unit);

/* The result; waits for it. Kept losses are then in `heard`. On a failure of the device, or of its
 * collectives, no update was done, and err has the sentence. */
int sums_result(struct unit *unit, struct sums_result *ret, struct error *err);

/* The first parameter with a sum that is not finite, or -1. */
int sums_first_nonfinite(struct unit *unit, int *ret_index);

/* They are not wanted any more: the gradients are zero again. */
void sums_clear(struct unit *unit);

#endif
