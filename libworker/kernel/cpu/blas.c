#include <stddef.h>

#include "libworker/kernel/cpu/blas.h"

#ifdef KERNEL_OPENBLAS

#include <stdlib.h>

#include <cblas.h>

void blas_start(void)
{
    if (!getenv("OPENBLAS_NUM_THREADS") && !getenv("OMP_NUM_THREADS"))
        openblas_set_num_threads(1);
}

bool blas_gemm(const struct kernel_gemm *g)
{
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                g->transpose_b ? CblasTrans : CblasNoTrans, (blasint)g->m, (blasint)g->n,
                (blasint)g->k, g->alpha, g->a, (blasint)g->lda, g->b, (blasint)g->ldb, g->beta,
                g->c, (blasint)g->ldc);
    return true;
}

const char *blas_core(void)
{
    return openblas_get_corename();
}

#else

void blas_start(void)
{
}

bool blas_gemm(const struct kernel_gemm *g)
{
    (void)g;
    return false;
}

const char *blas_core(void)
{
    return NULL;
}

#endif
