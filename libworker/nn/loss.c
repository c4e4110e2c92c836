#include "libworker/nn/loss.h"
#include "libworker/nn/product.h"

void head_logits(const struct head_loss *h, float *logits, const float *x)
{
    product(h->kernels, (int64_t[]){h->rows, h->vocab, h->width},
            (struct factor){x, h->width, false}, (struct factor){h->table, h->width, true},
            (struct result){logits, h->vocab, 0});
}

double head_loss_forward(const struct head_loss *h, float *logits, const float *x)
{
    head_logits(h, logits, x);
    return h->kernels->cross_entropy_forward(logits, h->targets, h->rows, h->vocab);
}

void head_loss_backward(const struct head_loss *h, float *dx, float *probs, const float *x,
                        float scale)
{
    h->kernels->cross_entropy_backward(probs, h->targets, h->rows, h->vocab, scale);
    product(h->kernels, (int64_t[]){h->vocab, h->width, h->rows},
            (struct factor){probs, h->vocab, true}, (struct factor){x, h->width, false},
            (struct result){h->dtable, h->width, 1});
    product(h->kernels, (int64_t[]){h->rows, h->width, h->vocab},
            (struct factor){probs, h->vocab, false}, (struct factor){h->table, h->width, false},
            (struct result){dx, h->width, 0});
}
