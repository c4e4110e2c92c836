/* The state besides tensors that must survive a restart: state.json of a checkpoint, and the data
 * for a new member of a generation. Plain data without pointers, the same on every rank. */
#ifndef CHECKPOINT_NUMBERS_H
#define CHECKPOINT_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/rng.h"

enum { NUMBERS_UNITS_MAX = 16, NUMBERS_LOADERS_MAX = 16, NUMBERS_SCHEDULERS_MAX = 16 };
enum { NUMBERS_MAX_BYTES = 1 << 20 }; /* of state.json */

/* Of one model and its optimizer. */
struct unit_numbers {
    int64_t optimizer_steps; /* what its bias correction counts */
    /* State of fp16's loss scale; 0: none. */
    double loss_scale;
    int64_t clean_steps, skipped_steps;
    /* Of the step after `step`, if several optimizers share it and only some have stepped: windows
     * of gradients that the tensors contain, and the number of those not skipped. */
    int64_t done, taken;
};

/* Lists are in the order of wk_prepare. */
struct train_numbers {
    int64_t step;        /* steps completed */
    int64_t total_steps; /* 0 = unknown */
    int64_t n_units, n_loaders, n_schedulers;
    struct unit_numbers units[NUMBERS_UNITS_MAX];
    int64_t loaders[NUMBERS_LOADERS_MAX];       /* global samples dealt */
    int64_t schedulers[NUMBERS_SCHEDULERS_MAX]; /* their steps */
    struct rng rng;
};

/* Append as JSON, the numbers of a single unit beside the others, those of several in a list; parse
 * what numbers_write wrote. WK_EIO for anything else. */
int numbers_write(const struct train_numbers *numbers, struct buf *out);
int numbers_parse(const char *text, size_t size, struct train_numbers *ret, struct error *err);

#endif
