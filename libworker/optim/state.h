/* An optimizer's state in memory, or in files (optimizer_offload). Inside optim/. */
#ifndef OPTIM_STATE_H
#define OPTIM_STATE_H

#include "libworker/optim/optimizer.h"

enum { OFFLOAD_WINDOW = 1 << 20 }; /* elements a step is through with before they are given back */

/* Zeros in memory of the optimizer's place, aligned to cache lines, so that no vector of the update
 * crosses two. NULL with a sentence. */
float *state_new(const struct wk_optimizer *o, size_t count, struct error *err);
void state_free(const struct wk_optimizer *o, float *state, size_t count);

/* The product of its dimensions; 0 without a state. */
size_t optimizer_elements(const struct optimizer_shape *shape);

/* o->scratch of at least `count` floats, if it has none. WK_ENOMEM. */
int state_scratch(struct wk_optimizer *o, size_t count, struct error *err);

/* A step is through with everything before element `upto` of the range. */
void state_passed(struct wk_optimizer *o, const float *params, size_t upto);

/* A step is done. */
void state_done(struct wk_optimizer *o, const float *params);

#endif
