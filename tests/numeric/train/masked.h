/* Tiny models of samples of which different numbers of positions count: their losses have
 * denominators that only the values of a batch say. */
#ifndef TRAIN_MASKED_H
#define TRAIN_MASKED_H

#include <worker/graph.h>
#include <worker/rows.h>
#include <worker/types.h>

struct masked_kind {
    const char *name;
    struct wk_graph *(*build)(void);
    const struct wk_row_options *rows;
};

/* A decoder, the same on samples of different lengths, an encoder of hidden tokens, and a trunk
 * with a loss per target, one per weight and one per element. */
enum { MASKED_KINDS = 4, MASKED_LENGTH = 12 };
extern const struct masked_kind masked_kinds[MASKED_KINDS];

/* The third loss alone: its denominator follows from sizes. */
struct wk_graph *masked_per_element(void);

/* The rows of samples first … first + count, as a program's own batch of the last kind. One for
 * each thread; the arrays live until its next call. */
struct masked_batch {
    int32_t tokens[32 * MASKED_LENGTH], targets[32 * MASKED_LENGTH];
    float weights[32 * MASKED_LENGTH], values[32 * MASKED_LENGTH];
    struct wk_batch_tensor tensors[2];
    struct wk_batch batch;
};
void masked_fill(struct masked_batch *ret, int64_t first, int64_t count);

#endif
