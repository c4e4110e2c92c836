#include <math.h>

#include "libworker/nn/attention.h"

/* The matrices of one head of one sample; rows of q, k, v are `stride` apart, of out `width`. */
struct head {
    const struct attention *all;
    int64_t length, size, stride, width;
    struct factor q, k, v;
    float *p, *dp;      /* [length, length]; scratch */
    int64_t q_offset;   /* of this head's queries in qkv */
    int64_t kv_offset;  /* of its keys */
    int64_t values;     /* from keys to values */
    int64_t out_offset; /* of this head's first element in out */
    bool first_of_group;
    float scale;
};

static struct factor part(const struct attention *a, int64_t offset, int64_t stride)
{
    const uint16_t *low = a->low ? a->low->left + offset : NULL;
    return (struct factor){a->qkv + offset, stride, false, low};
}

static struct factor turned(struct factor f)
{
    f.turned = !f.turned;
    return f;
}

static struct factor down(struct factor f, int64_t rows)
{
    f.data += rows * f.stride;
    if (f.low)
        f.low += rows * f.stride;
    return f;
}

static struct head head_at(const struct attention *a, int64_t index)
{
    int64_t stride = (a->heads + 2 * a->kv_heads) * a->size, width = a->heads * a->size;
    int64_t sample = index / a->heads, head = index % a->heads, group = a->heads / a->kv_heads;
    int64_t start = sample * a->length * stride;
    struct head h = {
        .all = a,
        .length = a->length,
        .size = a->size,
        .stride = stride,
        .width = width,
        .p = a->probs + index * a->length * a->length,
        .dp = a->scratch,
        .q_offset = start + head * a->size,
        .kv_offset = start + width + head / group * a->size,
        .values = a->kv_heads * a->size,
        .out_offset = sample * a->length * width + head * a->size,
        .first_of_group = head % group == 0,
        .scale = 1.0f / sqrtf((float)a->size),
    };
    h.q = part(a, h.q_offset, stride);
    h.k = part(a, h.kv_offset, stride);
    h.v = part(a, h.kv_offset + h.values, stride);
    return h;
}

static struct kernel_causal causal_at(const struct head *h, int64_t first)
{
    int64_t left = h->length - first;
    int64_t rows = left < ATTENTION_BLOCK ? left : ATTENTION_BLOCK;
    return (struct kernel_causal){
        .first = first, .rows = rows, .cols = first + rows, .ld = h->length, .scale = h->scale};
}

/* A block's rows as a factor, rounded into `room` where products want that. */
static struct factor block_factor(const struct head *h, const struct kernel_causal *c,
                                  const float *rows, uint16_t *room)
{
    const struct attention *a = h->all;
    for (int64_t i = 0; i < c->rows && a->low; i++)
        a->kernels->narrow(room + i * c->ld, a->low->type, rows + i * c->ld, (size_t)c->cols);
    return (struct factor){rows, c->ld, false, a->low ? room : NULL};
}

static void block_forward(const struct head *h, float *out, int64_t first)
{
    const struct attention *a = h->all;
    struct kernel_causal causal = causal_at(h, first);
    int64_t rows = causal.rows, cols = causal.cols;
    float *p = h->p + first * h->length; /* [rows, cols] */

    product(a->kernels, (int64_t[]){rows, cols, h->size}, down(h->q, first), turned(h->k),
            (struct result){p, h->length, 0, a->low});
    a->kernels->softmax_causal(&causal, p);
    product(a->kernels, (int64_t[]){rows, h->size, cols}, block_factor(h, &causal, p, a->probs_low),
            h->v, (struct result){out + first * h->width, h->width, 0, a->low});
}

/* dq is this block's own; dk and dv gather over blocks, the last of which sees every key and,
 * coming first in the first head of a group, overwrites.
 */
static void block_backward(const struct head *h, float *dqkv, const float *dout, int64_t first)
{
    const struct attention *a = h->all;
    const struct kernel_table *kernels = a->kernels;
    struct kernel_causal causal = causal_at(h, first);
    int64_t rows = causal.rows, cols = causal.cols;
    const float *probs = h->p + first * h->length;
    struct factor p = block_factor(h, &causal, probs, a->probs_low), q = down(h->q, first);
    int64_t at = h->out_offset + first * h->width;
    struct factor d = {dout + at, h->width, false, a->low ? a->low->right + at : NULL};
    float keep = cols == h->length && h->first_of_group ? 0.0f : 1.0f;
    struct result dq = {dqkv + h->q_offset + first * h->stride, h->stride, 0, a->low};
    struct result dk = {dqkv + h->kv_offset, h->stride, keep, a->low};
    struct result dv = {dk.data + h->values, h->stride, keep, a->low};

    product(kernels, (int64_t[]){cols, h->size, rows}, turned(p), d, dv);
    product(kernels, (int64_t[]){rows, cols, h->size}, d, turned(h->v),
            (struct result){h->dp, h->length, 0, a->low});
    kernels->softmax_causal_backward(&causal, h->dp, probs);
    struct factor ds = block_factor(h, &causal, h->dp, a->dprobs_low);
    product(kernels, (int64_t[]){rows, h->size, cols}, ds, h->k, dq);
    product(kernels, (int64_t[]){cols, h->size, rows}, turned(ds), q, dk);
}

static void round_qkv(const struct attention *a)
{
    int64_t stride = (a->heads + 2 * a->kv_heads) * a->size;
    if (a->low)
        (void)rounded_floats(a->kernels, a->low, a->low->left, a->qkv,
                             a->samples * a->length * stride);
}

void attention_forward(const struct attention *a, float *out)
{
    round_qkv(a);
    for (int64_t i = 0; i < a->samples * a->heads; i++) {
        struct head head = head_at(a, i);
        for (int64_t first = 0; first < a->length; first += ATTENTION_BLOCK)
            block_forward(&head, out + head.out_offset, first);
    }
}

void attention_backward(const struct attention *a, float *dqkv, const float *dout)
{
    int64_t last = (a->length - 1) / ATTENTION_BLOCK * ATTENTION_BLOCK;
    int64_t width = a->heads * a->size;
    round_qkv(a);
    if (a->low)
        (void)rounded_floats(a->kernels, a->low, a->low->right, dout,
                             a->samples * a->length * width);
    for (int64_t i = 0; i < a->samples * a->heads; i++) {
        struct head head = head_at(a, i);
        for (int64_t first = last; first >= 0; first -= ATTENTION_BLOCK)
            block_backward(&head, dqkv, dout, first);
    }
}
