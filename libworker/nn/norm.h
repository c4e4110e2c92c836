/* A layer norm over rows of `width`, with weight and bias as views into the model's arenas. */
#ifndef NN_NORM_H
#define NN_NORM_H

#include <stdint.h>

#include "libworker/nn/model.h"

struct norm {
    const struct kernel_table *kernels;
    int64_t width;
    const float *weight, *bias; /* [width] */
    float *dweight, *dbias;     /* [width] */
    float *mean, *rstd;         /* [rows]: kept from forward to backward; the caller's */
};

/* From two parameters, the bias following its weight; `stats` is the caller's, [2, rows]. */
struct norm norm_at(const struct wk_model *model, int weight_index, float *stats, int64_t rows);

/* y[rows, width] from x[rows, width]. */
void norm_forward(const struct norm *norm, float *y, const float *x, int64_t rows);

/* dx += gradient through the norm (dx holds the residual path's already); weights' gradients too.
 */
void norm_backward(const struct norm *norm, float *dx, const float *x, const float *dy,
                   int64_t rows);

#endif
