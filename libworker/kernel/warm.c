#include <stdlib.h>

#include <worker/error.h>

#include "libworker/kernel/cpu/blas.h"
#include "libworker/kernel/kernel.h"

enum { SIDE = 256 }; /* small products go without the memory */

int kernel_warm(const struct kernel_table *kernels)
{
    size_t count = (size_t)SIDE * SIDE;
    float *memory = blas_warm() ? NULL : calloc(3 * count, sizeof(*memory));
    if (!memory)
        return WK_ENOMEM;
    struct kernel_gemm gemm = {.m = SIDE,
                               .n = SIDE,
                               .k = SIDE,
                               .alpha = 1,
                               .a = memory,
                               .b = memory + count,
                               .c = memory + 2 * count,
                               .lda = SIDE,
                               .ldb = SIDE,
                               .ldc = SIDE};
    kernels->gemm(&gemm);
    free(memory);
    return 0;
}
