#include <math.h>

#include "libworker/nn/attention.h"

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
    return (struct kernel_causal){.first = first, .rows = rows, .cols = first + rows,
                                  .ld = h->length, .scale = h->scale};
}

static void block_forward(const struct head *h, float *out, int64_t first)
{
    struct kernel_causal causal = causal_at(h, first);
    float *p = h->p + first * h->length; /* [rows, cols] */

    /* p = q k^T */
    h->kernels->gemm(&(struct kernel_gemm){
        .transpose_b = true, .m = causal.rows, .n = causal.cols, .k = h->size, .alpha = 1,
        .a = h->q + first * h->stride, .lda = h->stride, .b = h->k, .ldb = h->stride,
        .c = p, .ldc = h->length});
    h->kernels->softmax_causal(&causal, p);
    /* out = p v */
    h->kernels->gemm(&(struct kernel_gemm){
        .m = causal.rows, .n = h->size, .k = causal.cols, .alpha = 1, .a = p, .lda = h->length,
        .b = h->v, .ldb = h->stride, .c = out + first * h->width, .ldc = h->width});
}

/* dq is this block's own; dk and dv gather over blocks, the last of which sees every key and, coming
 * first, overwrites.
 */
static void block_backward(const struct head *h, float *dq, const float *dout, int64_t first)
{
    struct kernel_causal causal = causal_at(h, first);
    int64_t rows = causal.rows, cols = causal.cols;
    float beta = cols == h->length ? 0.0f : 1.0f;
    const float *p = h->p + first * h->length, *d = dout + first * h->width;
    float *dk = dq + h->width, *dv = dq + 2 * h->width;

    /* dv (+)= p^T dout */
    h->kernels->gemm(&(struct kernel_gemm){
        .transpose_a = true, .m = cols, .n = h->size, .k = rows, .alpha = 1, .beta = beta,
        .a = p, .lda = h->length, .b = d, .ldb = h->width, .c = dv, .ldc = h->stride});
    /* dp = dout v^T */
    h->kernels->gemm(&(struct kernel_gemm){
        .transpose_b = true, .m = rows, .n = cols, .k = h->size, .alpha = 1,
        .a = d, .lda = h->width, .b = h->v, .ldb = h->stride, .c = h->dp, .ldc = h->length});
    h->kernels->softmax_causal_backward(&causal, h->dp, p);
    /* dq = dp k */
    h->kernels->gemm(&(struct kernel_gemm){
        .m = rows, .n = h->size, .k = cols, .alpha = 1, .a = h->dp, .lda = h->length,
        .b = h->k, .ldb = h->stride, .c = dq + first * h->stride, .ldc = h->stride});
    /* dk (+)= dp^T q */
    h->kernels->gemm(&(struct kernel_gemm){
        .transpose_a = true, .m = cols, .n = h->size, .k = rows, .alpha = 1, .beta = beta,
        .a = h->dp, .lda = h->length, .b = h->q + first * h->stride, .ldb = h->stride,
        .c = dk, .ldc = h->stride});
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
