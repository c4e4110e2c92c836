/* Matrix products on a GPU by cuBLASLt: d = alpha a b + beta c + bias, of matrices in rows, as
 * everywhere in libworker. cuBLASLt's matrices are in columns: it is asked for the product of the
 * transposes, with the factors exchanged. Nothing is copied.
 *
 *     type of a and b    result       sums
 *     f32                f32          f32, without TF32 unless MUSTER_TF32=1
 *     bf16               f32, bf16    f32
 *     f16                f32, f16     f32
 *
 * Plans: cuBLASLt's first choice for a shape is asked for once and kept. Parts of a sum (split k)
 * are added in f32 in a fixed order. So a product has the same bits in the whole run. At most
 * LT_PLANS_MAX shapes are kept; a further one replaces the oldest.
 * Failures make the device fail with a sentence (device.h). One thread at a time uses a device. */
#ifndef CUDA_LT_H
#define CUDA_LT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

#include "libworker/cuda/cuda.h"

enum {
    LT_PLANS_MAX = 1024,
    LT_WORKSPACE_MAX = 32 << 20, /* bytes; what cuBLAS itself takes on sm_90 */
    LT_SIZE_MAX = 0x7fffffff,    /* of m, n, k and the batch */
    LT_SLOPES_STEP = 8,          /* what slopes_stride is a multiple of */
    LT_SLOPES_ALIGN = 16,        /* of their address, in bytes */
};

/* "1": sums of products of f32 factors may round them to TF32's 10 bits. */
#define LT_TF32_VARIABLE "MUSTER_TF32"

/* A matrix whose rows are `stride` elements apart, and `each` from one of the batch to the next. */
struct lt_matrix {
    const void *at;
    int64_t stride, each;
    bool turned; /* use the transpose; of a and b */
};

/* d[m, n] = alpha a[m, k] b[k, n] + beta c[m, n] + bias[n], `batch` times. No size is 0 and none
 * is above LT_SIZE_MAX. */
struct lt_product {
    int64_t m, n, k, batch;
    enum wk_dtype type, result; /* of a and b; of c, d and bias */
    struct lt_matrix a, b, c;   /* c.at NULL: it is d. Else its strides are those of d */
    void *d;
    int64_t d_stride, d_each;
    const void *bias; /* NULL: none */
    /* d is multiplied by the slopes of GELU (by tanh) at these x[m, n], in the result's type. NULL:
     * it is not. Not with a bias or a batch. */
    const void *slopes_at;
    int64_t slopes_stride;
    float alpha, beta;          /* beta 0 does not read c */
    const float *factors_there; /* alpha and beta in device memory instead, or NULL */
};

/* Enqueue the product. `workspace` is device memory aligned to 256 bytes, of lt_workspace_bytes for
 * this m, n and batch, or NULL with 0 bytes. */
void lt_product(struct cuda_queue *queue, const struct lt_product *product, void *workspace,
                size_t workspace_bytes);

/* What is worth having: eight parts of each sum, at most LT_WORKSPACE_MAX. */
size_t lt_workspace_bytes(int64_t m, int64_t n, int64_t batch);

/* Shapes that the device has plans for. */
int lt_plans(const struct cuda_device *device);

#endif
