/* A norm over rows of `width`, its parameters views into the model's arenas: layer norm with weight
 * and bias, or RMS norm with a weight alone.
 */
#ifndef NN_NORM_H
#define NN_NORM_H

#include <stdint.h>

#include "libworker/nn/model.h"

struct norm {
    const struct kernel_table *kernels;
    int64_t width;
    float epsilon;
    const float *weight, *bias; /* [width]; bias NULL: RMS norm */
    float *dweight, *dbias;     /* [width] */
    float *mean, *rstd;         /* [rows]: kept from forward to backward; the caller's */

    struct wk_model *model; /* announced to, unless NULL */
    int first;
};

/* y[rows, width] from x[rows, width]. */
void norm_forward(const struct norm *norm, float *y, const float *x, int64_t rows);

/* dx += gradient through the norm (dx already has the residual path's); weights' gradients too,
 * announced. */
void norm_backward(const struct norm *norm, float *dx, const float *x, const float *dy,
                   int64_t rows);

#endif
