#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/cpu/blas.h"

/* The CBLAS interface with 32-bit integers. */
enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111, CBLAS_TRANS = 112 };

typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
typedef char *name_fn(void);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sgemm_fn *sgemm;   /* written by the once routine only */
static name_fn *corename; /* likewise */

/* OpenBLAS before 0.3.24 takes AMD processors it does not know for a Haswell and leaves half of the
 * speed of AVX-512 unused; it knows Intel's. Its own variable overrides the choice.
 */
static const char *better_core(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (!__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
#endif
    return NULL;
}

/* dlsym's result is an object pointer; POSIX wants it copied into a function pointer. */
static void find(void *library, const char *name, void *ret_function)
{
    void *symbol = dlsym(library, name);
    memcpy(ret_function, &symbol, sizeof(symbol));
}

static void load(void)
{
    const char *core = getenv("OPENBLAS_CORETYPE") ? NULL : better_core();
    bool threads = !getenv("OPENBLAS_NUM_THREADS") && !getenv("OMP_NUM_THREADS");
    if (core)
        setenv("OPENBLAS_CORETYPE", core, 1);
    if (threads)
        setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
    if (core)
        unsetenv("OPENBLAS_CORETYPE");
    if (threads)
        unsetenv("OPENBLAS_NUM_THREADS");
    if (!library)
        return;
    find(library, "cblas_sgemm", &sgemm);
    find(library, "openblas_get_corename", &corename);
}

void blas_load(void)
{
    pthread_once(&once, load);
}

bool blas_gemm(const struct kernel_gemm *g)
{
    blas_load();
    if (!sgemm)
        return false;
    sgemm(CBLAS_ROW_MAJOR, g->transpose_a ? CBLAS_TRANS : CBLAS_NO_TRANS,
          g->transpose_b ? CBLAS_TRANS : CBLAS_NO_TRANS, (int)g->m, (int)g->n, (int)g->k, g->alpha,
          g->a, (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
    return true;
}

const char *blas_core(void)
{
    blas_load();
    return corename ? corename() : NULL;
}
