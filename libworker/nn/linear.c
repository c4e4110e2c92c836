#include "libworker/nn/linear.h"

struct linear linear_at(const struct wk_model *model, int weight_index)
{
    const struct param *weight = &model->params[weight_index];
    const struct param *bias = weight + 1;
    return (struct linear){
        .kernels = model->kernels,
        .in = weight->shape[0],
        .out = weight->shape[1],
        .weight = weight->data,
        .bias = bias->data,
        .dweight = weight->grad,
        .dbias = bias->grad,
    };
}

/* The bias (and the residual) are put there first and the product added, which saves a pass. */
void linear_forward(const struct linear *l, float *y, const float *x, const float *residual,
                    int64_t rows)
{
    if (residual)
        l->kernels->bias_add(y, residual, l->bias, rows, l->out);
    else
        l->kernels->bias_fill(y, l->bias, rows, l->out);
    l->kernels->gemm(&(struct kernel_gemm){
        .m = rows, .n = l->out, .k = l->in, .alpha = 1, .beta = 1,
        .a = x, .lda = l->in, .b = l->weight, .ldb = l->out, .c = y, .ldc = l->out});
}

void linear_backward_weights(const struct linear *l, const float *x, const float *dy, int64_t rows)
{
    l->kernels->bias_backward(l->dbias, dy, rows, l->out);
    l->kernels->gemm(&(struct kernel_gemm){
        .transpose_a = true, .m = l->in, .n = l->out, .k = rows, .alpha = 1, .beta = 1,
        .a = x, .lda = l->in, .b = dy, .ldb = l->out, .c = l->dweight, .ldc = l->out});
}

void linear_backward_input(const struct linear *l, float *dx, const float *dy, int64_t rows)
{
    l->kernels->gemm(&(struct kernel_gemm){
        .transpose_b = true, .m = rows, .n = l->in, .k = l->out, .alpha = 1,
        .a = dy, .lda = l->out, .b = l->weight, .ldb = l->out, .c = dx, .ldc = l->in});
}
