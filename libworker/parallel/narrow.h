/* How the parameters a model's products read are made from the master parameters, which stay in
 * float: a policy, decided once in wk_prepare. Plain data; one thread.
 *
 *     master (float) ──narrow_write──► low (bf16, f16) ──► products
 *
 * A model reads its matrices from the low copy and its vectors from the master (nn/model.h). The
 * rounding of an element depends on its place in the model and on the step only, so every strategy
 * and world computes with the same copy.
 */
#ifndef PARALLEL_NARROW_H
#define PARALLEL_NARROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libworker/kernel/kernel.h"

struct queue;

struct narrowing {
    const struct kernel_table *kernels;
    enum wk_dtype type;   /* WK_BF16 or WK_F16; WK_F32: there is no low copy */
    bool stochastic;      /* bf16: up or down by chance */
    size_t trained;       /* the model's elements that are; the frozen ones after them are rounded
                           * to nearest, and so alike at every step */
    uint64_t seed;        /* of that */
    const int64_t *steps; /* the optimizer's step count, for rounding; borrowed, NULL: 0 */
    bool grads;           /* where parts are on different ranks: gradients are summed in `type` */
};

static inline bool narrowing_on(const struct narrowing *n)
{
    return n->type != WK_F32;
}

/* Elements `first` and following of the model. */
struct narrow_source {
    const float *x; /* [count] */
    size_t count;
    uint64_t first;
};

/* Enqueue out[count] from the source, both in memory of the queue's device. */
void narrow_write(const struct narrowing *n, struct queue *queue, uint16_t *out,
                  struct narrow_source source);

#endif
