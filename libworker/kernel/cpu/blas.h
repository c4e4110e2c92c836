/* sgemm of OpenBLAS. The only file that knows it; built without it where it is not installed, so
 * that such machines still train (with the slower product in fast.c).
 */
#ifndef KERNEL_CPU_BLAS_H
#define KERNEL_CPU_BLAS_H

#include <stdbool.h>

#include "libworker/kernel/kernel.h"

/* One thread, unless OPENBLAS_NUM_THREADS or OMP_NUM_THREADS is set: ranks share a machine. */
void blas_start(void);

/* Let each of the library's own threads take its memory now. A thread that has not run yet would
 * otherwise take what the first product left, and the next product ask for more. Not while another
 * thread multiplies. WK_ENOMEM. */
int blas_warm(void);

/* True when done; false when there is no library. Any thread. */
bool blas_gemm(const struct kernel_gemm *gemm);

/* "SkylakeX", "Haswell" … as OpenBLAS names its kernels; NULL without it. */
const char *blas_core(void);

/* Whether OPENBLAS_CORETYPE would be heeded: the library has the kernels of many CPUs. */
bool blas_chooses(void);

/* The widest instructions of the kernels that OpenBLAS calls `core`. A name that is not known here
 * is of a newer OpenBLAS: KERNEL_AVX512. */
enum kernel_simd blas_core_simd(const char *core);

#endif
