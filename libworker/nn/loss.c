#include "libworker/nn/loss.h"

void head_logits(const struct head_loss *h, float *logits, const float *x)
{
    h->kernels->gemm(&(struct kernel_gemm){
        .transpose_b = true, .m = h->rows, .n = h->vocab, .k = h->width, .alpha = 1,
        .a = x, .lda = h->width, .b = h->table, .ldb = h->width, .c = logits, .ldc = h->vocab});
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
    h->kernels->gemm(&(struct kernel_gemm){
        .transpose_a = true, .m = h->vocab, .n = h->width, .k = h->rows, .alpha = 1, .beta = 1,
        .a = probs, .lda = h->vocab, .b = x, .ldb = h->width, .c = h->dtable, .ldc = h->width});
    h->kernels->gemm(&(struct kernel_gemm){
        .m = h->rows, .n = h->width, .k = h->vocab, .alpha = 1,
        .a = probs, .lda = h->vocab, .b = h->table, .ldb = h->width, .c = dx, .ldc = h->width});
}
