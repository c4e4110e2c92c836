/* mixed_precision: narrow copies for the products, a loss scale in fp16, and the test whether a
 * window's sums can be applied. Owned by the program's thread. */
#ifndef STEP_MIXED_H
#define STEP_MIXED_H

#include <stdbool.h>

#include "common/base/error.h"
#include "libworker/checkpoint/numbers.h"
#include "libworker/parallel/narrow.h"

struct unit;
struct wk_context;

struct mixed {
    struct narrowing narrowing; /* the same for all units, except each unit's step count */
    bool scales;                /* fp16: losses are multiplied by the scaler's scale */
};

/* Read its settings, which agree on all ranks: which types are narrowed, and whether losses are
 * scaled. */
void mixed_open(struct wk_context *ctx);

int mixed_open_unit(struct unit *unit, struct error *err);

/* Factor for the loss in the next backward pass. */
double mixed_scale(const struct unit *unit);

/* What follows from a window's sums, of which the update was done if they and the loss are finite.
 * A non-finite value sets *ret_skip in fp16. In other precisions, or when no loss scale helps, it
 * is WK_EOVERFLOW and the sentence names the parameter. Call it once per window. Collective when
 * sharded; codes of collectives then have no sentence. */
int mixed_judge(struct unit *unit, bool finite, bool *ret_skip, struct error *err);

void mixed_numbers(const struct unit *unit, struct unit_numbers *ret);
void mixed_adopt(struct unit *unit, const struct unit_numbers *numbers);

#endif
