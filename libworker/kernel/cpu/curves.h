/* Private to kernel/cpu: the plain functions of curves.h, and the builds of fast_curves.c, one for
 * each table of cpu.h. Constant data; any thread. */
#ifndef KERNEL_CPU_CURVES_H
#define KERNEL_CPU_CURVES_H

#include "libworker/kernel/curves.h"

extern const struct curve_kernels curves_reference;
extern const struct curve_kernels curves_fast_own;
extern const struct curve_kernels curves_fast_base;
extern const struct curve_kernels curves_fast_avx2;
extern const struct curve_kernels curves_fast_avx512;

#endif
