#include <math.h>

#include "libworker/nn/attention.h"
#include "libworker/nn/product.h"

/* The matrices of one head of one sample; rows of q, k, v are 3 * width apart, of out width. */
struct head {
    const struct kernel_table *kernels;
    int64_t length, size, stride, width;
    const float *q, *k, *v;
    float *p, *dp;      /* [length, length]; scratch */
    int64_t out_offset; /* of this head's first element in out */
    float scale;
};

static struct head head_at(const struct attention *a, int64_t index)
{
    int64_t width = a->heads * a->size;
    int64_t sample = index / a->heads, column = index % a->heads * a->size;
    const float *q = a->qkv + sample * a->length * 3 * width + column;
    return (struct head){
        .kernels = a->kernels,
        .length = a->length,
        .size = a->size,
        .stride = 3 * width,
        .width = width,
        .q = q,
        .k = q + width,
        .v = q + 2 * width,
        .p = a->probs + index * a->length * a->length,
        .dp = a->scratch,
        .out_offset = sample * a->length * width + column,
        .scale = 1.0f / sqrtf((float)a->size),
    };
}

static struct kernel_causal causal_at(const struct head *h, int64_t first)
{
    int64_t left = h->length - first;
    int64_t rows = left < ATTENTION_BLOCK ? left : ATTENTION_BLOCK;
    return (struct kernel_causal){
        .first = first, .rows = rows, .cols = first + rows, .ld = h->length, .scale = h->scale};
}

static void block_forward(const struct head *h, float *out, int64_t first)
{
    struct kernel_causal causal = causal_at(h, first);
    int64_t rows = causal.rows, cols = causal.cols;
    float *p = h->p + first * h->length; /* [rows, cols] */
    struct factor q = {h->q + first * h->stride, h->stride, false};
    struct factor k_turned = {h->k, h->stride, true}, v = {h->v, h->stride, false};

    product(h->kernels, (int64_t[]){rows, cols, h->size}, q, k_turned,
            (struct result){p, h->length, 0});
    h->kernels->softmax_causal(&causal, p);
    product(h->kernels, (int64_t[]){rows, h->size, cols}, (struct factor){p, h->length, false}, v,
            (struct result){out + first * h->width, h->width, 0});
}

/* dq is this block's own; dk and dv gather over blocks, the last of which sees every key and,
 * coming first, overwrites.
 */
static void block_backward(const struct head *h, float *dq, const float *dout, int64_t first)
{
    struct kernel_causal causal = causal_at(h, first);
    int64_t rows = causal.rows, cols = causal.cols;
    const float *p = h->p + first * h->length;
    struct factor q = {h->q + first * h->stride, h->stride, false};
    struct factor k = {h->k, h->stride, false}, v_turned = {h->v, h->stride, true};
    struct factor d = {dout + first * h->width, h->width, false};
    float keep = cols == h->length ? 0.0f : 1.0f;
    struct result dk = {dq + h->width, h->stride, keep}, dv = {dk.data + h->width, h->stride, keep};

    product(h->kernels, (int64_t[]){cols, h->size, rows}, (struct factor){p, h->length, true}, d,
            dv);
    product(h->kernels, (int64_t[]){rows, cols, h->size}, d, v_turned,
            (struct result){h->dp, h->length, 0});
    h->kernels->softmax_causal_backward(&causal, h->dp, p);
    product(h->kernels, (int64_t[]){rows, h->size, cols}, (struct factor){h->dp, h->length, false},
            k, (struct result){dq + first * h->stride, h->stride, 0});
    product(h->kernels, (int64_t[]){cols, h->size, rows}, (struct factor){h->dp, h->length, true},
            q, dk);
}

void attention_forward(const struct attention *a, float *out)
{
    for (int64_t i = 0; i < a->samples * a->heads; i++) {
        struct head head = head_at(a, i);
        for (int64_t first = 0; first < a->length; first += ATTENTION_BLOCK)
            block_forward(&head, out + head.out_offset, first);
    }
}

void attention_backward(const struct attention *a, float *dqkv, const float *dout)
{
    int64_t last = (a->length - 1) / ATTENTION_BLOCK * ATTENTION_BLOCK;
    for (int64_t i = 0; i < a->samples * a->heads; i++) {
        struct head head = head_at(a, i);
        float *dq = dqkv + (head.q - a->qkv);
        for (int64_t first = last; first >= 0; first -= ATTENTION_BLOCK)
            block_backward(&head, dq, dout + head.out_offset, first);
    }
}
