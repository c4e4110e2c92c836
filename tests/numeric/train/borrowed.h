/* A custom model that computes what a model of ours does, because its passes are that model's code:
 * the program's part is to lead them to the parameters and gradients that wk_prepare gave it.
 */
#ifndef TRAIN_BORROWED_H
#define TRAIN_BORROWED_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/nn.h>
#include <worker/types.h>

enum borrowed_how {
    BORROWED_PLAIN,  /* in the types that it is told */
    BORROWED_WIDENS, /* bits are read, and become floats before it computes */
    BORROWED_ROUNDS, /* gradients are given in float, after the program has rounded them */
};

struct borrowed {
    struct wk_model *custom; /* what is prepared */
    struct wk_model *code;   /* whose passes they are; with arenas of its own */
    float *params, *grads;
    enum borrowed_how how;
    bool by_block; /* its passes enter the blocks of the GPT */
    int depth;
};

/* A GPT's passes, with the initial values that this seed gives; every buffer is `narrow` (0 for its
 * vectors, as models of ours have them). */
void borrowed_init(struct borrowed *b, const struct wk_gpt_config *config, uint64_t seed,
                   unsigned narrow, bool by_block);
void borrowed_fini(
    struct borrowed *b); /* the custom model is the caller's; zeroed memory is fine */

/* Forward and backward with announcements, up to wk_backward. */
void borrowed_passes(struct borrowed *b, const struct wk_batch *batch);

#endif
