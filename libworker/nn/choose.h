/* A token by its logits. Pure. */
#ifndef NN_CHOOSE_H
#define NN_CHOOSE_H

#include <stdint.h>

/* Candidates are the `top_k` largest logits (0: all). Of these it is the fewest, largest first,
 * that have at least the share `top_p` of the probability (0 or 1: all). Equal logits are
 * candidates together. Source: nucleus sampling, Holtzman et al. 2020. */
struct choice {
    double temperature; /* 0: the likeliest token, the first of equals */
    int top_k;
    double top_p;
};

/* Draw from softmax(logits[vocab] / temperature) over the candidates, with `chance` in [0, 1).
 * `room` is for [vocab] numbers and is free between calls. */
int32_t choose_token(const float *logits, int64_t vocab, const struct choice *how, double chance,
                     float *room);

#endif
