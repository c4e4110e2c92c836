/* The feed-forward half of a transformer block: y = GELU(x up) down, or gated (SwiGLU), where `up`
 * gives the gate and what it opens side by side. y = residual + that.
 */
#ifndef NN_MLP_H
#define NN_MLP_H

#include "libworker/nn/linear.h"

/* Elements activated before they are rounded: they stay in the first-level cache. A row is taken
 * whole. */
enum { MLP_TILE = 4096 };

struct mlp {
    struct linear up, down; /* [width, inner] or [width, 2 * inner]; [inner, width] */
    bool gated;
    float *hidden; /* [rows, up.out], before the activation; kept from forward to backward */
    struct operand active; /* [rows, inner], after it; likewise */
    float *tile;           /* [MLP_TILE], where `active` is rounded */
    float *dactive;        /* [rows, inner], backward only */
    float *dhidden;        /* [rows, up.out], likewise; may be dactive where not gated */
};

/* y[rows, width] = mlp(x[rows, width]) plus `residual`[rows, width] unless it is NULL. */
void mlp_forward(const struct mlp *mlp, float *y, struct operand x, const float *residual,
                 int64_t rows);

/* dx overwritten with the gradient of x; the weights' gradients are added to. */
void mlp_backward(const struct mlp *mlp, float *dx, struct operand x, const float *dy,
                  int64_t rows);

#endif
