/* What a model computes, in words. Ranks with equal words run equal passes. They compare the words
 * when they meet (step/agree_model.h). One thread.
 */
#ifndef NN_WORDS_H
#define NN_WORDS_H

#include "libworker/nn/model.h"

enum { MODEL_LINE_MAX = 448 };

/* Of a model's implementation. */
struct words_ops {
    /* A line for each parameter, operation and loss: "dropout(t4), share 0.1, in block
     * h.0: [samples, 64] f32". */
    int (*lines)(const struct wk_model *model);
    void (*line)(const struct wk_model *model, int i, char ret[MODEL_LINE_MAX]);
    /* How a training pass of these sizes is computed: its options, and its plan by a digest. */
    void (*pass)(struct wk_model *model, int64_t samples, int64_t length, char ret[MODEL_LINE_MAX]);
};

#endif
