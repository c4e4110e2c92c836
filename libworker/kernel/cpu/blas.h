/* sgemm of OpenBLAS, found at run time, so that its choice of kernels can be corrected before it is
 * loaded and machines without it still train (with the slower product in fast.c). The only file
 * that knows OpenBLAS.
 */
#ifndef KERNEL_CPU_BLAS_H
#define KERNEL_CPU_BLAS_H

#include <stdbool.h>

#include "libworker/kernel/kernel.h"

/* Load the library if that has not happened yet; later calls and other threads wait and return.
 * Threads: OPENBLAS_NUM_THREADS or OMP_NUM_THREADS, else 1. Changes the environment for the time
 * of loading: call it before other threads use getenv.
 */
void blas_load(void);

/* True when done; false when there is no library. Loads it if need be. */
bool blas_gemm(const struct kernel_gemm *gemm);

/* "SkylakeX", "Haswell" … as OpenBLAS names its kernels; NULL without the library. */
const char *blas_core(void);

#endif
