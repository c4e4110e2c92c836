/* What the numeric tests share: random arrays, comparison, a bound model, reference files. */
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

/* Path of a file of the reference data, in MUSTER_REFERENCE or beside the checkout; skips the test
 * with the reason when there is none. Freed with free.
 */
char *fixture_reference(const char *file);

#endif
