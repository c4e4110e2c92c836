/* Everything beside tensors that must survive a restart: state.json of a checkpoint, and what a new
 * member of a generation is told. Plain data without pointers, the same on every rank.
 */
#ifndef CHECKPOINT_NUMBERS_H
#define CHECKPOINT_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/rng.h"

enum { NUMBERS_LOADERS_MAX = 8, NUMBERS_SCHEDULERS_MAX = 8 };

struct train_numbers {
    int64_t step;            /* optimizer steps taken */
    int64_t total_steps;     /* 0 = unknown */
    int64_t optimizer_steps; /* what the optimizer's bias correction counts */
    int64_t n_loaders, n_schedulers;
    int64_t loaders[NUMBERS_LOADERS_MAX];       /* global samples dealt, by order of wk_prepare */
    int64_t schedulers[NUMBERS_SCHEDULERS_MAX]; /* their steps */
    struct rng rng;
    /* Of fp16's loss scale; 0: there is none. */
    double loss_scale;
    int64_t clean_steps, skipped_steps;
};

/* Append as JSON; parse what numbers_write wrote. WK_EIO for anything else. */
int numbers_write(const struct train_numbers *numbers, struct buf *out);
int numbers_parse(const char *text, size_t size, struct train_numbers *ret, struct error *err);

#endif
