/* Texts that go on: a model keeps what it computed of their positions (keys and values), and a pass
 * computes only the positions that follow. All texts of a cache are equally long.
 *
 *     decode_begin ── decode_pass, once for some positions and logits, or none ── … ── decode_end
 *
 * A pass over a batch of the model's other calls ends a forward pass that waits, but not a cache.
 * The model's block hooks are called in each pass. One thread.
 */
#ifndef NN_DECODE_H
#define NN_DECODE_H

#include "libworker/nn/model.h"

/* A model's implementation of the functions below. The batch was validated. */
struct decode_ops {
    int (*begin)(struct wk_model *, int64_t samples, int64_t capacity, struct error *);
    int (*pass)(struct wk_model *, const struct wk_batch *, int64_t past, float *ret_logits,
                struct error *);
    void (*end)(struct wk_model *);
};

/* A cache for texts of up to `capacity` <= context positions. WK_EUNSUPPORTED without one:
 * the sentence names the operation that mixes positions otherwise. WK_ESTATE unbound, WK_EINVAL for
 * too many samples, WK_ENOMEM. On failure there is no cache. */
int decode_begin(struct wk_model *model, int64_t samples, int64_t capacity, struct error *err);

/* Compute batch->tokens [samples, length] at positions past … past + length - 1 <= capacity; those
 * before were computed since decode_begin. With ret_logits [samples, vocab], of the last position.
 * Without, less is computed. WK_EINVAL for a token outside the vocabulary; fails as the hooks. */
int decode_pass(struct wk_model *model, const struct wk_batch *batch, int64_t past,
                float *ret_logits, struct error *err);

/* Free the cache; also allowed if there is none. */
void decode_end(struct wk_model *model);

#endif
