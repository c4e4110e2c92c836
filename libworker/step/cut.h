/* How the models are cut over the ranks, and which part this rank has. Without a strategy that cuts
 * every rank has part 0 of 1. Owned by the program's thread.
 */
#ifndef STEP_CUT_H
#define STEP_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/parallel/groups.h"

enum { HANDOFFS_MAX = 16 }; /* parts of ranks that left, kept by each rank that stayed */

struct handoff;
struct wk_context;

struct cut {
    bool is_sharded; /* the strategy cuts: this rank has part `part` of `parts` */
    int part, parts;
    uint64_t generation; /* in which the present parts were cut */
    bool torn;           /* an update of this part failed half-way */
    bool fell_back;      /* while agreeing: state was lost, so a checkpoint is required */
    struct handoff *handoffs[HANDOFFS_MAX]; /* kept between generations (hand_off.h) */
    int n_handoffs;
};

/* The part of the models for a rank of the present world. */
struct layout cut_layout(const struct wk_context *ctx, int rank);

/* Set this rank's part to that of the present rank and world. */
void cut_place(struct wk_context *ctx);

#endif
