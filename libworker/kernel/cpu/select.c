/* Which build of the fast kernels this machine runs. */
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/cpu/blas.h"
#include "libworker/kernel/cpu/cpu.h"

enum { VARIANTS_MAX = 5 };

static int runnable(const struct kernel_table *ret_tables[VARIANTS_MAX])
{
    int n = 0;
    ret_tables[n++] = kernel_reference();
    ret_tables[n++] = &kernel_fast_own;
    ret_tables[n++] = &kernel_fast_base;
#ifdef KERNEL_FAST_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return n;
    ret_tables[n++] = &kernel_fast_avx2;
    /* All that this build is compiled with: a machine or its hypervisor may have some of them. */
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        ret_tables[n++] = &kernel_fast_avx512;
#endif
    return n;
}

const struct kernel_table *kernel_named(const char *name)
{
    const struct kernel_table *tables[VARIANTS_MAX] = {NULL};
    for (int i = runnable(tables) - 1; i >= 0; i--)
        if (strcmp(tables[i]->name, name) == 0)
            return tables[i];
    return NULL;
}

const struct kernel_table *kernel_cpu(void)
{
    const struct kernel_table *tables[VARIANTS_MAX] = {NULL};
    const char *wanted = getenv(KERNEL_VARIABLE);
    const struct kernel_table *named = wanted ? kernel_named(wanted) : NULL;
    blas_start();
    return named ? named : tables[runnable(tables) - 1];
}

enum kernel_simd kernel_simd(void)
{
#ifdef KERNEL_FAST_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd"))
        return KERNEL_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return KERNEL_AVX2;
    if (__builtin_cpu_supports("avx"))
        return KERNEL_AVX;
#endif
    return KERNEL_SSE;
}

const struct kernel_table *kernel_cpu_variant(int i)
{
    const struct kernel_table *tables[VARIANTS_MAX] = {NULL};
    return i >= 0 && i < runnable(tables) ? tables[i] : NULL;
}
