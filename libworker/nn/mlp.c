#include "libworker/nn/mlp.h"

static void activate(const struct mlp *m, float *out, const float *hidden, int64_t rows)
{
    const struct kernel_table *k = m->up.kernels;
    if (m->gated)
        k->swiglu_forward(out, hidden, rows, m->down.in);
    else
        k->gelu_forward(out, hidden, (size_t)(rows * m->down.in));
}

/* Rounded a few rows at a time, so that the activation in float stays in the cache. */
static void activate_low(const struct mlp *m, int64_t rows)
{
    int64_t inner = m->down.in, most = MLP_TILE / inner > 0 ? MLP_TILE / inner : 1;
    for (int64_t r = 0; r < rows; r += most) {
        int64_t n = rows - r < most ? rows - r : most;
        activate(m, m->tile, m->hidden + r * m->up.out, n);
        m->up.kernels->narrow(m->active.low + r * inner, m->up.low->type, m->tile,
                              (size_t)(n * inner));
    }
}

void mlp_forward(const struct mlp *m, float *y, struct operand x, const float *residual,
                 int64_t rows)
{
    linear_forward(&m->up, m->hidden, x, NULL, rows);
    if (m->active.low)
        activate_low(m, rows);
    else
        activate(m, m->active.data, m->hidden, rows);
    linear_forward(&m->down, y, m->active, residual, rows);
}

void mlp_backward(const struct mlp *m, float *dx, struct operand x, const float *dy, int64_t rows)
{
    const struct kernel_table *k = m->up.kernels;
    linear_backward(&m->down, m->dactive, m->active, dy, rows);
    if (m->gated)
        k->swiglu_backward(m->dhidden, m->hidden, m->dactive, (int64_t[]){rows, m->down.in});
    else
        k->gelu_backward(m->dhidden, m->hidden, m->dactive, (size_t)(rows * m->down.in));
    linear_backward(&m->up, dx, x, m->dhidden, rows);
}
