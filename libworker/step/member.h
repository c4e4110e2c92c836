/* The facts of a generation's members, and whether they prepared the same objects. Collective.
 * Owned by the program's thread. */
#ifndef STEP_MEMBER_H
#define STEP_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "libworker/checkpoint/numbers.h"
#include "libworker/step/cut.h"

struct wk_context;

/* Gathered as 64-bit numbers. */
struct member_unit {
    int64_t count, params, states;
    int64_t digest; /* of the parameters' names, sizes, whether rounded and trained */
};
struct member {
    int64_t trained, partial, step; /* state.h */
    int64_t windows, taken;         /* units_count */
    int64_t done;                   /* windows of the step in progress */
    int64_t units, loaders, schedulers;
    int64_t cut_generation, part, parts_of; /* in which its part was cut, and which of how many */
    int64_t n_handoffs, handoffs[HANDOFFS_MAX]; /* parts of ranks that left, from the same cut */
    struct member_unit of[NUMBERS_UNITS_MAX];
};

/* The facts of all members, malloced. WK_EMISMATCH if they prepared different objects. */
int member_gather(struct wk_context *ctx, struct member **ret, struct error *err);

/* True if a is further than b (member_further), or equally far (member_level). */
bool member_further(const struct member *a, const struct member *b);
bool member_level(const struct member *a, const struct member *b);

/* Sent before its tensors by the member with the chosen state. */
struct announcement {
    struct train_numbers numbers;
    double losses[NUMBERS_UNITS_MAX];
    int32_t code; /* the reason if it has nothing to send */
    char text[512];
};
void member_announce(const struct wk_context *ctx, struct announcement *ret);
void member_adopt(struct wk_context *ctx, const struct announcement *announcement);

#endif
