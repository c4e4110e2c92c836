#include "libworker/nn/linear.h"
#include "libworker/nn/product.h"

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
    product(l->kernels, (int64_t[]){rows, l->out, l->in}, (struct factor){x, l->in, false},
            (struct factor){l->weight, l->out, false}, (struct result){y, l->out, 1});
}

void linear_backward_weights(const struct linear *l, const float *x, const float *dy, int64_t rows)
{
    l->kernels->bias_backward(l->dbias, dy, rows, l->out);
    product(l->kernels, (int64_t[]){l->in, l->out, rows}, (struct factor){x, l->in, true},
            (struct factor){dy, l->out, false}, (struct result){l->dweight, l->out, 1});
}

void linear_backward_input(const struct linear *l, float *dx, const float *dy, int64_t rows)
{
    product(l->kernels, (int64_t[]){rows, l->in, l->out}, (struct factor){dy, l->out, false},
            (struct factor){l->weight, l->out, true}, (struct result){dx, l->in, 0});
}
