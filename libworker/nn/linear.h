/* A linear layer: y[rows, out] = x[rows, in] weight[in, out] + bias[out]. The weights are views
 * into the model's arenas. FLOP: 2 rows in out forward, twice that backward.
 */
#ifndef NN_LINEAR_H
#define NN_LINEAR_H

#include <stdint.h>

#include "libworker/nn/model.h"

struct linear {
    const struct kernel_table *kernels;
    int64_t in, out;
    const float *weight, *bias; /* [in, out], [out] */
    float *dweight, *dbias;     /* likewise; NULL when only the forward pass is wanted */
};

/* From two parameters, the bias following its weight in the table. */
struct linear linear_at(const struct wk_model *model, int weight_index);

/* y = x weight + bias, plus `residual`[rows, out] unless it is NULL. */
void linear_forward(const struct linear *linear, float *y, const float *x, const float *residual,
                    int64_t rows);

/* dweight += x^T dy, dbias += column sums of dy. */
void linear_backward_weights(const struct linear *linear, const float *x, const float *dy,
                             int64_t rows);

/* dx[rows, in] = dy[rows, out] weight^T. */
void linear_backward_input(const struct linear *linear, float *dx, const float *dy, int64_t rows);

#endif
