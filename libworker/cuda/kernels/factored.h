/* Adafactor's update of one tensor (Shazeer and Stern 2018, algorithms 4 to 6), as
 * optim/adafactor.c. A vector is a matrix of one row without `row`. Sums of squares are in double,
 * in a fixed order.
 *
 * Bytes that one parameter moves, in at most 6 launches:
 *
 *     8      gradients for the moments of rows and of columns
 *     4      gradients for the size of the update
 *     4      parameters, where rates are relative to them
 *     12     gradients and parameters for the update itself
 */
#ifndef CUDA_KERNELS_FACTORED_H
#define CUDA_KERNELS_FACTORED_H

#include "libworker/cuda/kernels/update.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FACTORED_PARTIALS = 1024, /* of each of two sums */
    FACTORED_NUMBERS = 4,
    FACTORED_ROOM = 2 * FACTORED_PARTIALS + FACTORED_NUMBERS,
};

struct gpu_factored {
    int64_t rows, cols;
    float *params;
    const float *grads;
    float *row, *col; /* the moments; row is NULL for a vector */
    float *scratch;   /* [rows + cols] */
    double *room;     /* [FACTORED_ROOM] */
    float decay, epsilon1;
    double rate, weight_decay, clip, epsilon2;
    const float *decay_at; /* the device's decay and rate; NULL: those above */
    const double *rate_at;
    bool relative;
    struct gpu_factor factor;
};
void gpu_adafactor(const struct gpu_factored *f, cudaStream_t stream);
int gpu_adafactor_partials(int64_t count); /* of each sum, for a tensor of `count` elements */

#ifdef __cplusplus
}
#endif

#endif
