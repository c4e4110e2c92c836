#include <assert.h>

#include "libworker/nn/linear.h"

static struct linear linear_from(struct wk_model *model, int first, int n)
{
    const struct param *weight = &model->params[first];
    return (struct linear){
        .kernels = model->kernels,
        .weight = weight->data,
        .dweight = weight->grad,
        .low = model->low,
        .weight_low = weight->low,
        .model = model,
        .first = first,
        .n_params = n,
    };
}

struct linear linear_at(struct wk_model *model, int weight_index)
{
    const struct param *weight = &model->params[weight_index], *bias = weight + 1;
    struct linear l = linear_from(model, weight_index, 2);
    l.in = weight->shape[0];
    l.out = weight->shape[1];
    l.bias = bias->data;
    l.dbias = bias->grad;
    return l;
}

struct linear linear_joined(struct wk_model *model, int first, int n)
{
    struct linear l = linear_from(model, first, n);
    l.turned = true;
    l.in = model->params[first].shape[1];
    for (int i = first; i < first + n; i++) {
        assert(i == first ||
               model->params[i].data == model->params[i - 1].data + model->params[i - 1].count);
        l.out += model->params[i].shape[0];
    }
    return l;
}

static struct factor weight_of(const struct linear *l, bool turned)
{
    return (struct factor){l->weight, l->turned ? l->in : l->out, turned != l->turned,
                           l->weight_low};
}

/* The bias (and the residual) are put there first and the product added, which saves a pass. */
static float put_first(const struct linear *l, float *y, const float *residual, int64_t rows)
{
    if (residual && l->bias)
        l->kernels->bias_add(y, residual, l->bias, rows, l->out);
    else if (residual)
        l->kernels->blend(y, &(struct kernel_blend){1, 0}, residual, residual,
                          (size_t)(rows * l->out));
    else if (l->bias)
        l->kernels->bias_fill(y, l->bias, rows, l->out);
    return residual || l->bias ? 1 : 0;
}

void linear_forward(const struct linear *l, float *y, struct operand x, const float *residual,
                    int64_t rows)
{
    uint16_t *room = l->low ? l->low->left : NULL;
    const uint16_t *low = rounded(l->kernels, l->low, room, &x, rows * l->in);
    float keep = put_first(l, y, residual, rows);
    product(l->kernels, (int64_t[]){rows, l->out, l->in},
            (struct factor){x.data, l->in, false, low}, weight_of(l, false),
            (struct result){y, l->out, keep, l->low});
}

static void announce(const struct linear *l)
{
    for (int i = l->n_params - 1; i >= 0 && l->model; i--)
        model_announce(l->model, l->first + i);
}

void linear_backward(const struct linear *l, float *dx, struct operand x, const float *dy,
                     int64_t rows)
{
    const struct kernel_table *k = l->kernels;
    uint16_t *left = l->low ? l->low->left : NULL, *right = l->low ? l->low->right : NULL;
    const uint16_t *x_low = rounded(k, l->low, left, &x, rows * l->in);
    const uint16_t *dy_low = rounded_floats(k, l->low, right, dy, rows * l->out);
    struct result dweight = {l->dweight, l->turned ? l->in : l->out, 1, l->low};

    if (l->dbias)
        k->bias_backward(l->dbias, dy, rows, l->out);
    if (l->turned)
        product(k, (int64_t[]){l->out, l->in, rows}, (struct factor){dy, l->out, true, dy_low},
                (struct factor){x.data, l->in, false, x_low}, dweight);
    else
        product(k, (int64_t[]){l->in, l->out, rows}, (struct factor){x.data, l->in, true, x_low},
                (struct factor){dy, l->out, false, dy_low}, dweight);
    announce(l);
    if (dx)
        product(k, (int64_t[]){rows, l->in, l->out}, (struct factor){dy, l->out, false, dy_low},
                weight_of(l, true), (struct result){dx, l->in, 0, l->low});
}
