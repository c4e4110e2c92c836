/* What the sums of a model's losses are divided by. Each loss has a denominator: samples, elements,
 * targets that are not WK_IGNORED, or the sum of an input. A batch adds its share to it. The shares
 * of all ranks and of all batches of a window make the denominator of each pass in it.
 *
 * Pure; the model and the batch are read.
 */
#ifndef NN_COUNT_H
#define NN_COUNT_H

#include <stdbool.h>

#include "libworker/nn/model.h"

enum { MODEL_LOSSES_MAX = 64 };

/* The input that a denominator depends on by its values. */
struct count_input {
    const char *name; /* NULL: sizes alone decide */
    bool targets;     /* all count but WK_IGNORED; else the values are summed */
};

/* Of a model's implementation. */
struct count_ops {
    int (*losses)(const struct wk_model *); /* at most MODEL_LOSSES_MAX */
    struct count_input (*input)(const struct wk_model *, int loss);
    /* What batch->samples samples add to each loss' denominator: ret[losses]. Values that the batch
     * does not have count as batch->denominator, which is then of these samples. */
    void (*add)(const struct wk_model *, const struct wk_batch *, double *ret);
};

/* Whether a pass can run on the batch, as model_forward asks; without `losses` it needs no targets.
 * WK_ESTATE, WK_EINVAL. */
int model_check(const struct wk_model *model, const struct wk_batch *batch, bool losses,
                struct error *err);

#endif
