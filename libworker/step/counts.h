/* What losses are divided by, counted over all ranks and all batches of a window before its first
 * pass (nn/count.h).
 *
 *      wk_next deals a window's first batch ── counts_window ──► loader->counts, for each of them
 *      wk_count_batches of the program's own ── counts_own ────► unit->counts, for its next passes
 *
 * A pass divides by the window's denominator over the number of its batches, because wk_step
 * divides by that number again. What sizes alone decide costs no message, and reads nothing ahead.
 *
 * Owned by the program's thread.
 */
#ifndef STEP_COUNTS_H
#define STEP_COUNTS_H

#include <stdbool.h>

#include "libworker/checkpoint/numbers.h"
#include "libworker/nn/count.h"

struct wk_context;
struct wk_loader;
struct unit;

/* Of a loader's batches: the divisors of each unit that has its inputs from them. */
struct counts {
    bool has[NUMBERS_UNITS_MAX];
    double divisors[NUMBERS_UNITS_MAX][MODEL_LOSSES_MAX];
};

/* Count the batch dealt last and those after it, `window` in all. False: the generation broke, or
 * the error is sticky. */
bool counts_window(struct wk_context *ctx, struct wk_loader *loader, int window);

/* Batches that are then in memory together. */
int counts_held(const struct wk_context *ctx, const struct wk_loader *loader, int window);

/* Count the program's batches of the unit's next `n` passes. Collective; fails as a collective. */
int counts_own(struct unit *unit, const struct wk_batch *batches, int n);

/* The divisors of the unit's next pass, on a batch that `dealt` dealt (NULL: none); or NULL. */
const double *counts_of(const struct unit *unit, const struct wk_loader *dealt);

#endif
