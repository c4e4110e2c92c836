/* What launches of optimizers hand their kernels. */
#ifndef CUDA_OPTIMIZERS_H
#define CUDA_OPTIMIZERS_H

#include "libworker/cuda/kernels/update.h"
#include "libworker/optim/launches.h"

/* The segment, its factor and its copy; the state only where tensors may be cut. */
struct gpu_update update_of(const struct update_args *args);

#endif
