#include "libworker/nn/product.h"

void product(const struct kernel_table *kernels, const int64_t size[3], struct factor a,
             struct factor b, struct result c)
{
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
