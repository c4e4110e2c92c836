#include "libworker/nn/norm.h"

static struct kernel_norm kernel_norm_of(const struct norm *n, const float *x, int64_t rows)
{
    return (struct kernel_norm){.rows = rows,
                                .width = n->width,
                                .epsilon = n->epsilon,
                                .x = x,
                                .weight = n->weight,
                                .bias = n->bias,
                                .mean = n->mean,
                                .rstd = n->rstd};
}

void norm_forward(const struct norm *n, float *y, const float *x, int64_t rows)
{
    struct kernel_norm kernel = kernel_norm_of(n, x, rows);
    if (n->bias)
        n->kernels->norm_forward(&kernel, y);
    else
        n->kernels->rms_forward(&kernel, y);
}

void norm_backward(const struct norm *n, float *dx, const float *x, const float *dy, int64_t rows)
{
    struct kernel_norm kernel = kernel_norm_of(n, x, rows);
    if (n->bias)
        n->kernels->norm_backward(&kernel, dy, dx, n->dweight, n->dbias);
    else
        n->kernels->rms_backward(&kernel, dy, dx, n->dweight);
    if (!n->model)
        return;
    if (n->bias)
        model_announce(n->model, n->first + 1);
    model_announce(n->model, n->first);
}
