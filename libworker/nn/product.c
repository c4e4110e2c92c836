#include "libworker/nn/product.h"

static void product_low(const struct kernel_table *kernels, const int64_t size[3], struct factor a,
                        struct factor b, struct result c)
{
    struct kernel_gemm_low gemm = {
        .transpose_a = a.turned,
        .transpose_b = b.turned,
        .add = c.keep != 0,
        .type = c.low->type,
        .m = size[0],
        .n = size[1],
        .k = size[2],
        .a = a.low,
        .b = b.low,
        .c = c.data,
        .lda = a.stride,
        .ldb = b.stride,
        .ldc = c.stride,
    };
    kernels->gemm_low(c.low->room, &gemm);
}

void product(const struct kernel_table *kernels, const int64_t size[3], struct factor a,
             struct factor b, struct result c)
{
    if (c.low) {
        product_low(kernels, size, a, b, c);
        return;
    }
    struct kernel_gemm gemm = {
        .transpose_a = a.turned,
        .transpose_b = b.turned,
        .m = size[0],
        .n = size[1],
        .k = size[2],
        .alpha = 1,
        .beta = c.keep,
        .a = a.data,
        .b = b.data,
        .c = c.data,
        .lda = a.stride,
        .ldb = b.stride,
        .ldc = c.stride,
    };
    kernels->gemm(&gemm);
}
