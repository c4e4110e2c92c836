/* What one kind of model fills in, as a constant table. model.c calls it, after it has checked the
 * batch and the model's state. The model's thread. */
#ifndef NN_MODEL_OPS_H
#define NN_MODEL_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/nn.h>
#include <worker/types.h>

#include "common/base/error.h"

struct buffer_ops;
struct count_ops;
struct decode_ops;
struct words_ops;
struct queue;
struct wk_model;

struct model_ops {
    const char *name; /* "gpt" */
    /* As the model_ functions of these names (model.h); the batch was validated. A pass without
     * samples calls hooks, ranks and grad_ready as others do. */
    int (*forward)(struct wk_model *, const struct wk_batch *, double *ret_loss, struct error *);
    int (*backward)(struct wk_model *, double scale, struct error *);
    int (*evaluate)(struct wk_model *, const struct wk_batch *, double *ret_loss,
                    const struct wk_outputs *, struct error *);
    int (*logits)(struct wk_model *, const struct wk_batch *, float *ret_logits, struct error *);
    void (*free)(struct wk_model *); /* the implementation's own memory, and the struct */
    /* As model_reserve; NULL: there are no activations of its own. */
    int (*reserve)(struct wk_model *, int64_t samples, int64_t length, struct error *);
    /* Whether a batch of at least one sample has what a pass needs; without `losses` it needs no
     * targets. NULL: tokens, and targets, of the vocabulary, at most `context` long. */
    int (*check)(const struct wk_model *, const struct wk_batch *, bool losses, struct error *);
    const struct count_ops *count;    /* nn/count.h; NULL: the losses are the program's own */
    const struct words_ops *words;    /* nn/words.h; NULL: nothing is known of what it computes */
    const struct buffer_ops *buffers; /* nn/buffers.h; NULL: no model of its kind has any */
    /* As wk_model_freeze; NULL: it cannot. */
    int (*freeze)(struct wk_model *, const char *pattern, bool on, struct error *);
    const struct decode_ops *decode; /* nn/decode.h; NULL: it cannot go on from what it computed */
    /* As model_move; NULL: it stays on the host. */
    int (*move)(struct wk_model *, struct queue *, struct error *);
    void (*keep_loss)(struct wk_model *, double *to); /* as model_keep_loss; where there is move */
};

#endif
