#include "libworker/nn/mlp.h"

void mlp_forward(const struct mlp *m, float *y, const float *x, const float *residual, int64_t rows)
{
    const struct kernel_table *k = m->up.kernels;
    linear_forward(&m->up, m->hidden, x, NULL, rows);
    if (m->gated)
        k->swiglu_forward(m->active, m->hidden, rows, m->down.in);
    else
        k->gelu_forward(m->active, m->hidden, (size_t)(rows * m->down.in));
    linear_forward(&m->down, y, m->active, residual, rows);
}

void mlp_backward(const struct mlp *m, float *dx, const float *x, const float *dy, int64_t rows)
{
    const struct kernel_table *k = m->up.kernels;
    linear_backward(&m->down, m->dactive, m->active, dy, rows);
    if (m->gated)
        k->swiglu_backward(m->dhidden, m->hidden, m->dactive, (int64_t[]){rows, m->down.in});
    else
        k->gelu_backward(m->dhidden, m->hidden, m->dactive, (size_t)(rows * m->down.in));
    linear_backward(&m->up, dx, x, m->dhidden, rows);
}
