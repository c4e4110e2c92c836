/* The kernels of the module by name, with the arguments of launches. Constant data; any thread. */
#ifndef CUDA_TABLE_H
#define CUDA_TABLE_H

#include "libworker/cuda/op.h"

/* NULL: the module has none. */
const struct device_kernel *table_find(const char *name);
const struct cuda_op *table_op(const char *name);

#endif
