/* The sums of a window: this rank's numbers for them, what all ranks said, and how large the summed
 * gradient is. What the host asks of a window's sums it asks here, and nothing before they are
 * complete.
 *
 *            begin           begin, of the last pass           finish
 *      EMPTY ───────► OPEN ────────────────────────► SUMMING ──────────► COMPLETE
 *        └────────────────────────────────────────────►
 *
 * sums_clear leads from each of them to EMPTY: the window was closed, or it is given up. A last
 * pass says its numbers in SUMMING, before its flush. Norm, limit and finite are asked in COMPLETE.
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
    double scale; /* factor for the summed gradients in wk_step; set when they are complete */
};

/* True from the begin of the window's last pass on. */
static inline bool sums_begun(const struct window_sums *sums)
{
    return sums->phase == WINDOW_SUMMING || sums->phase == WINDOW_COMPLETE;
}

/* A pass of the window begins, the last one or not. */
void sums_begin(struct unit *unit, bool last);

/* In a window's last pass, before its flush. */
void sums_say(struct unit *unit);

/* Wait for the sums. err has the sentence. */
int sums_finish(struct unit *unit, struct error *err);

/* The norm of the gradient as wk_step would apply it. */
int sums_norm(struct unit *unit, double *ret);

/* Limit each element, as wk_step would apply it, to [-most, most]. A window with non-finite values
 * stays unchanged. */
int sums_limit(struct unit *unit, double most);

/* Whether all of them, before anything was limited, and their factor are finite. And the first
 * parameter whose sum is not, or -1. */
int sums_finite(struct unit *unit, bool *ret);
int sums_first_nonfinite(struct unit *unit, int *ret_index);

/* They are not wanted any more: the gradients are zero again. */
void sums_clear(struct unit *unit);

#endif
