/* The feed-forward half of a transformer block: y = residual + GELU(x up) down. In the gated form
 * (SwiGLU) `up` produces the gate and the gated values side by side. */
#ifndef NN_MLP_H
#define NN_MLP_H

#include "libworker/nn/linear.h"

/* Elements activated before they are rounded: they stay in the first-level cache. A row is never
 * split. */
enum { MLP_TILE = 4096 };

struct mlp {
    struct linear up, down; /* [width, inner] or [width, 2 * inner]; [inner, width] */
    bool gated;
    float *hidden; /* [rows, up.out], before the activation; kept from forward to backward */
    struct operand active; /* [rows, inner], after it; kept too */
    float *tile;           /* [MLP_TILE], where `active` is rounded */
    float *dactive;        /* [rows, inner], backward only */
    float *dhidden;        /* [rows, up.out], backward only; may be dactive if not gated */
};

/* y[rows, width] = mlp(x[rows, width]) plus `residual`[rows, width] unless it is NULL. */
void mlp_forward(const struct mlp *mlp, float *y, struct operand x, const float *residual,
                 int64_t rows);

/* dx overwritten with the gradient of x; the weights' gradients are added to. */
void mlp_backward(const struct mlp *mlp, float *dx, struct operand x, const float *dy,
                  int64_t rows);

#endif
