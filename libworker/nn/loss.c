#include "libworker/nn/loss.h"

static struct factor table_of(const struct head_loss *h, bool turned)
{
    return (struct factor){h->table, h->width, turned, h->table_low};
}

void head_logits(const struct head_loss *h, float *logits, struct operand x)
{
    uint16_t *room = h->low ? h->low->left : NULL;
    const uint16_t *x_low = rounded(h->kernels, h->low, room, &x, h->rows * h->width);
    product(h->kernels, (int64_t[]){h->rows, h->vocab, h->width},
            (struct factor){x.data, h->width, false, x_low}, table_of(h, true),
            (struct result){logits, h->vocab, 0, h->low});
}

static struct kernel_entropy entropy_of(const struct head_loss *h)
{
    return (struct kernel_entropy){h->rows, h->vocab, h->targets, h->smoothing};
}

double head_loss_forward(const struct head_loss *h, float *logits, struct operand x)
{
    struct kernel_entropy entropy = entropy_of(h);
    head_logits(h, logits, x);
    return h->kernels->cross_entropy_forward(&entropy, logits);
}

void head_loss_backward(const struct head_loss *h, float *dx, float *probs, struct operand x,
                        float scale)
{
    const struct kernel_table *k = h->kernels;
    struct kernel_entropy entropy = entropy_of(h);
    k->cross_entropy_backward(&entropy, probs, scale);
    uint16_t *left = h->low ? h->low->left : NULL, *right = h->low ? h->low->right : NULL;
    const uint16_t *x_low = rounded(k, h->low, left, &x, h->rows * h->width);
    const uint16_t *d_low = rounded_floats(k, h->low, right, probs, h->rows * h->vocab);
    product(k, (int64_t[]){h->vocab, h->width, h->rows},
            (struct factor){probs, h->vocab, true, d_low},
            (struct factor){x.data, h->width, false, x_low},
            (struct result){h->dtable, h->width, 1, h->low});
    product(k, (int64_t[]){h->rows, h->width, h->vocab},
            (struct factor){probs, h->vocab, false, d_low}, table_of(h, false),
            (struct result){dx, h->width, 0, h->low});
}

double square_loss_forward(const struct kernel_table *kernels, float *difference, const float *x,
                           const float *target, size_t count)
{
    kernels->blend(difference, &(struct kernel_blend){1, -1}, x, target, count);
    return kernels->sum_squares(difference, count);
}

void square_loss_backward(const struct kernel_table *kernels, float *dx, const float *difference,
                          float scale, size_t count)
{
    kernels->blend(dx, &(struct kernel_blend){2 * scale, 0}, difference, difference, count);
}
