#include "libworker/nn/mlp.h"

void mlp_forward(const struct mlp *m, float *y, const float *x, const float *residual, int64_t rows)
{
    linear_forward(&m->fc, m->hidden, x, NULL, rows);
    m->fc.kernels->gelu_forward(m->active, m->hidden, (size_t)(rows * m->fc.out));
    linear_forward(&m->proj, y, m->active, residual, rows);
}

void mlp_backward(const struct mlp *m, float *dx, const float *x, const float *dy, int64_t rows)
{
    linear_backward_weights(&m->proj, m->active, dy, rows);
    linear_backward_input(&m->proj, m->dhidden, dy, rows);
    m->fc.kernels->gelu_backward(m->dhidden, m->hidden, m->dhidden, (size_t)(rows * m->fc.out));
    linear_backward_weights(&m->fc, x, m->dhidden, rows);
    linear_backward_input(&m->fc, dx, m->dhidden, rows);
}
