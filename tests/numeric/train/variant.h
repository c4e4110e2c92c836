/* One toy run on a number of ranks, described by its settings, and what came of it. */
#ifndef TRAIN_VARIANT_H
#define TRAIN_VARIANT_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/numeric/train/borrowed.h"

enum { VARIANT_STEPS = 12, VARIANT_RANKS_MAX = 4, VARIANT_WEIGHTS_MAX = 1 << 16 };

struct variant {
    const char *strategy, *accumulation, *prefetch, *reshard, *bucket; /* NULL: as usual */
    const char *replicas, *offload, *offload_parameters, *hook, *one_rank_reads;
    const char *precision, *low_gradients, *stochastic, *scale, *clip_value, *recompute;
    int ranks;
    int64_t batch;
    bool custom, borrowed, llama, no_clip, muon;
    unsigned narrow; /* toy.h */
    enum borrowed_how how;
    bool by_block;                   /* toy.h */
    struct wk_graph *(*graph)(void); /* toy.h */
    const struct wk_row_options *rows;
    bool gathers; /* all parameters after every step */
};

struct outcome {
    double losses[VARIANT_STEPS + 1];
    float norms[VARIANT_STEPS + 1];
    float weights[VARIANT_WEIGHTS_MAX];
    int64_t skipped;
    double scale;
};

/* Run it; every rank must end well and with the same outcome. */
void variant_run(const struct variant *variant, struct outcome *ret);

/* The largest differences: of losses and norms relative to a's, of weights absolute; and the mean
 * of those. */
struct apart {
    double losses, norms, weights, mean_weight;
};
struct apart outcome_apart(const struct outcome *a, const struct outcome *b);

bool outcome_same_bits(const struct outcome *a, const struct outcome *b);

#endif
