/* The device's addresses apart from memory (device/space_ops.h): the driver's virtual memory
 * management. A piece has several addresses ("virtual aliases"), which CUDA's programming guide
 * allows to work that streams or events order: never two of them in one kernel. */
#ifndef CUDA_SPACE_H
#define CUDA_SPACE_H

#include "libworker/cuda/cuda.h"
#include "libworker/device/space_ops.h"

extern const struct space_ops cuda_spaces;

#endif
