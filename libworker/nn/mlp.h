/* The feed-forward half of a transformer block: y = GELU(x fc) proj. */
#ifndef NN_MLP_H
#define NN_MLP_H

#include "libworker/nn/linear.h"

struct mlp {
    struct linear fc, proj; /* [width, inner], [inner, width] */
    float *hidden;          /* [rows, inner], before GELU; kept from forward to backward */
    float *active;          /* [rows, inner], after GELU; likewise */
    float *dhidden;         /* [rows, inner], backward only */
};

/* y[rows, width] = residual[rows, width] + mlp(x[rows, width]). */
void mlp_forward(const struct mlp *mlp, float *y, const float *x, const float *residual,
                 int64_t rows);

/* dx overwritten with the gradient of x; the weights' gradients are added to. */
void mlp_backward(const struct mlp *mlp, float *dx, const float *x, const float *dy, int64_t rows);

#endif
