#include "libworker/nn/norm.h"

struct norm norm_at(const struct wk_model *model, int weight_index, float *stats, int64_t rows)
{
    const struct param *weight = &model->params[weight_index];
    const struct param *bias = weight + 1;
    return (struct norm){
        .kernels = model->kernels,
        .width = weight->shape[0],
        .weight = weight->data,
        .bias = bias->data,
        .dweight = weight->grad,
        .dbias = bias->grad,
        .mean = stats,
        .rstd = stats + rows,
    };
}

static struct kernel_norm kernel_norm_of(const struct norm *n, const float *x, int64_t rows)
{
    return (struct kernel_norm){.rows = rows,
                                .width = n->width,
                                .x = x,
                                .weight = n->weight,
                                .bias = n->bias,
                                .mean = n->mean,
                                .rstd = n->rstd};
}

void norm_forward(const struct norm *n, float *y, const float *x, int64_t rows)
{
    struct kernel_norm kernel = kernel_norm_of(n, x, rows);
    n->kernels->norm_forward(&kernel, y);
}

void norm_backward(const struct norm *n, float *dx, const float *x, const float *dy, int64_t rows)
{
    struct kernel_norm kernel = kernel_norm_of(n, x, rows);
    n->kernels->norm_backward(&kernel, dy, dx, n->dweight, n->dbias);
}
