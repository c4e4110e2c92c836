/* bf16 products by oneDNN on CPUs that multiply bf16 (AVX512-BF16). The only file that knows it;
 * built without it where it is not installed, and then the tiles of fast.c stand in.
 */
#ifndef KERNEL_CPU_ONEDNN_H
#define KERNEL_CPU_ONEDNN_H

#include <stdbool.h>

#include "libworker/kernel/kernel.h"

struct onednn;

/* NULL where the library, the instruction or memory is missing. Keeps one plan per shape of
 * product; one thread at a time. */
struct onednn *onednn_new(void);
void onednn_free(struct onednn *o); /* NULL is fine */

/* True when done; false when it has no kernel for this product. Runs on the calling thread alone.
 */
bool onednn_gemm(struct onednn *library, const struct kernel_gemm_low *gemm);

#endif
