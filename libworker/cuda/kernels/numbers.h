/* The numbers of a step, in double and in the device's memory: sums over arrays, and what becomes
 * of them. Nothing waits for the host. At most NUMBERS_PARTIALS blocks make a sum, and one
 * adds up theirs. Their number depends on the count alone: the same bits on every run and GPU.
 *
 * Bytes: sums read their array once. The others are a launch of one thread.
 */
#ifndef CUDA_KERNELS_NUMBERS_H
#define CUDA_KERNELS_NUMBERS_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NUMBERS_PARTIALS = 1024, NUMBERS_TOTAL_MAX = 64 };

struct gpu_sum {
    struct gpu_value x;
    int64_t count; /* may be 0 */
    bool squares;  /* of x; else x itself */
    bool add;      /* to *ret; else it is overwritten */
    double *ret;
    double *partials; /* [NUMBERS_PARTIALS] */
};
void gpu_sum_up(const struct gpu_sum *sum, cudaStream_t stream);
int gpu_sum_partials(int64_t count); /* that it uses */

/* *to = the sum of sums[i] * weights[i] / divisors[i]. */
struct gpu_total {
    int n; /* <= NUMBERS_TOTAL_MAX */
    const double *sums;
    double *to;
    double weights[NUMBERS_TOTAL_MAX], divisors[NUMBERS_TOTAL_MAX];
};
void gpu_total_up(const struct gpu_total *total, cudaStream_t stream);

/* What optim/verdict.h enqueues, on its numbers. */
struct verdict_values;
enum gpu_verdict { GPU_ADD_LOSS, GPU_OPEN, GPU_MEASURE, GPU_CLIP, GPU_JUDGE };
struct gpu_verdict_step {
    enum gpu_verdict what;
    struct verdict_values *at;
    double number;
    bool flag;      /* open: the sums are known to be finite; measure: the first of its window */
    double epsilon; /* clip: added to the norm */
};
void gpu_verdict_run(const struct gpu_verdict_step *step, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
