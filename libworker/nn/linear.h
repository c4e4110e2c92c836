/* A linear layer: y[rows, out] = x[rows, in] weight[in, out] + bias[out]. The weights are views
 * into the model's arenas. FLOP: 2 rows in out forward, twice that backward.
 */
#ifndef NN_LINEAR_H
#define NN_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/nn/model.h"
#include "libworker/nn/product.h"

struct linear {
    const struct kernel_table *kernels;
    int64_t in, out;
    bool turned;                /* the weight is [out, in], as in most checkpoints */
    const float *weight, *bias; /* [in, out], [out]; bias may be NULL */
    float *dweight, *dbias;     /* the same shapes; NULL if only the forward pass is wanted */
    const struct low *low;      /* NULL: in float */
    const uint16_t *weight_low; /* the weight rounded, where low is not NULL */

    /* The model of announced gradients, last parameter first; NULL announces nothing. */
    struct wk_model *model;
    int first, n_params;
};

/* From a weight [in, out] and the bias that follows it in the table. */
struct linear linear_at(struct wk_model *model, int weight_index);

/* From `n` adjacent weights [out_i, in] without bias: one layer with their outputs side by side. */
struct linear linear_joined(struct wk_model *model, int first, int n);

/* y = x weight + bias, plus `residual`[rows, out] unless it is NULL. */
void linear_forward(const struct linear *linear, float *y, struct operand x, const float *residual,
                    int64_t rows);

/* dweight += x^T dy, dbias += column sums of dy, announced; then dx[rows, in] = dy[rows, out]
 * weight^T unless dx is NULL. x is the forward pass's.
 */
void linear_backward(const struct linear *linear, float *dx, struct operand x, const float *dy,
                     int64_t rows);

#endif
