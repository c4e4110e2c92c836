/* What the numeric tests share: random arrays, comparison, a bound model and the slope of its loss,
 * every build of the kernels.
 */
#ifndef NN_FIXTURE_H
#define NN_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "libworker/nn/model.h"

/* count floats, normal with this deviation, the same for the same name; freed with free. */
float *fixture_normal(const char *name, size_t count, double deviation);

/* Largest |a - b| over the largest |b| (0 when both are zero); NaN when either holds one. */
double fixture_distance(const float *a, const float *b, size_t count);

/* A model bound to zeroed arenas, not initialised. */
struct fixture {
    struct wk_model *model;
    float *params, *grads;
};

struct fixture fixture_new(const struct wk_gpt_config *config);
void fixture_free(struct fixture *fixture);

/* The model bound, with weights larger than training starts with, so that every path carries weight
 * in the loss. Takes the model. */
struct fixture fixture_busy(struct wk_model *model, const struct kernel_table *kernels);

/* The loss of a forward pass, which must succeed. */
double fixture_loss(struct wk_model *model, const struct wk_batch *batch);

/* Expect the gradient that is there to be the slope of the loss, by differences along a random
 * direction of each `every`th parameter, within `tolerance` of the gradient's norm. */
void fixture_expect_slopes(struct wk_model *model, const struct wk_batch *batch, int every,
                           double tolerance);

/* Kernels: run `check` with every fast build; a copy, freed with free; expect `ours` to be
 * `expected` but for the roundings of a sum of 256, beside the largest element, and free it. */
typedef void fixture_check_fn(const struct kernel_table *fast, const struct kernel_table *plain);
void fixture_every_build(fixture_check_fn *check);
float *fixture_copy(const float *x, size_t count);
void fixture_same(float *ours, const float *expected, size_t count, const char *what,
                  const struct kernel_table *kernels);

#endif
