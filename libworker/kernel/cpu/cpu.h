/* Private to kernel/cpu: what the plain and the fast kernels share, and the builds of the fast
 * ones.
 *
 * cpu/fast.c is compiled once per instruction set, each build with another name for its one public
 * object; kernel_cpu picks the best this machine has. Constant data; any thread.
 */
#ifndef KERNEL_CPU_CPU_H
#define KERNEL_CPU_CPU_H

#include "libworker/kernel/kernel.h"

/* The builds; those of another architecture do not exist (CMakeLists.txt lists them). */
extern const struct kernel_table kernel_fast_own; /* as base, without a BLAS */
extern const struct kernel_table kernel_fast_base;
extern const struct kernel_table kernel_fast_avx2;
extern const struct kernel_table kernel_fast_avx512;

#endif
