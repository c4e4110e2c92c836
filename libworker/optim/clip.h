/* Clipping by the global norm: the pieces of one norm are summed in a fixed order in double, so the
 * result does not change from run to run. Pure but for what is enqueued; any thread, a queue's own
 * for that.
 */
#ifndef OPTIM_CLIP_H
#define OPTIM_CLIP_H

#include <stddef.h>

#include "libworker/kernel/kernel.h"

struct queue;
struct verdict_values;

/* Sum of squares of grads[count]. Ranks with different parts add these up before the root. */
double clip_sum_squares(const struct kernel_table *kernels, const float *grads, size_t count);

#define CLIP_EPSILON 1e-6 /* torch.nn.utils.clip_grad_norm_'s */

/* Factor for gradients of this norm, as in torch: min(1, max_norm / (norm + CLIP_EPSILON)). NaN or
 * infinite norms result in NaN, so that the caller notices. */
double clip_factor(double norm, double max_norm);

/* Every gradient into [-limit, limit]; a NaN stays one. */
void clip_clamp(float *grads, size_t count, float limit);

/* Gradients in memory of a queue's device: float ones, or where `low` is not NULL narrow ones, for
 * which scratch has room for CLIP_PIECE floats there. */
enum { CLIP_PIECE = 16384 }; /* elements widened at a time: they stay in cache */

struct clip_grads {
    const struct kernel_table *kernels;
    float *grads;
    uint16_t *low;
    enum wk_dtype type;
    float *scratch;
    size_t count;
};

/* Enqueue *ret, in the device's memory, from the sum of their squares. */
void clip_measure(struct queue *queue, const struct clip_grads *grads, double *ret);

/* Enqueue: clamp them, times `at`->scale, to [-most, most], unless at->finite is 0: that would hide
 * what is not finite. */
void clip_limit(struct queue *queue, const struct clip_grads *grads,
                const struct verdict_values *at, double most);

#endif
