/* Clipping by the global norm: the pieces of one norm are summed in a fixed order in double, so the
 * result does not change from run to run. Pure; any thread.
 */
#ifndef OPTIM_CLIP_H
#define OPTIM_CLIP_H

#include <stddef.h>

#include "libworker/kernel/kernel.h"

/* Sum of squares of grads[count]. Ranks with different parts add these up before the root. */
double clip_sum_squares(const struct kernel_table *kernels, const float *grads, size_t count);

/* Factor for gradients of this norm, as in torch: min(1, max_norm / (norm + 1e-6)). NaN or infinite
 * norms result in NaN, so that the caller notices. */
double clip_factor(double norm, double max_norm);

/* Every gradient into [-limit, limit]; a NaN stays one. */
void clip_clamp(float *grads, size_t count, float limit);

#endif
