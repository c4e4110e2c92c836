#include <stddef.h>

#include "libworker/kernel/cpu/blas.h"

#ifdef KERNEL_OPENBLAS

#include <stdlib.h>
#include <string.h>

#include <cblas.h>
#include <worker/error.h>

enum { WARM_ROWS = 128, WARM_SIDE = 128 }; /* of each thread: less is done by fewer of them */

static bool threads_are_chosen(void)
{
    return getenv("OPENBLAS_NUM_THREADS") || getenv("OMP_NUM_THREADS");
}

void blas_start(void)
{
    if (!threads_are_chosen())
        openblas_set_num_threads(1);
}

/* Its threads start with the library, one per processor, and allocate their memory at their first
 * run. A product in which each has a part ends after that. */
int blas_warm(void)
{
    int now = openblas_get_num_threads();
    int threads = threads_are_chosen() ? now : openblas_get_num_procs();
    int rows = threads * WARM_ROWS;
    float *memory = calloc((size_t)(2 * rows + WARM_SIDE) * WARM_SIDE, sizeof(*memory));
    if (!memory)
        return WK_ENOMEM;
    float *tall = memory, *square = tall + (size_t)rows * WARM_SIDE;
    float *product = square + (size_t)WARM_SIDE * WARM_SIDE;
    openblas_set_num_threads(threads);
    cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, rows, WARM_SIDE, WARM_SIDE, 1, tall,
                rows, square, WARM_SIDE, 0, product, rows);
    openblas_set_num_threads(now);
    free(memory);
    return 0;
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

bool blas_chooses(void)
{
    return strstr(openblas_get_config(), "DYNAMIC_ARCH") != NULL;
}

#else

void blas_start(void)
{
}

int blas_warm(void)
{
    return 0;
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

bool blas_chooses(void)
{
    return false;
}

#endif
