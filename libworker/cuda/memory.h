/* Slots of device_ops.h: device memory, and pinned memory of the host. */
#ifndef CUDA_MEMORY_H
#define CUDA_MEMORY_H

#include "libworker/cuda/cuda.h"

void *cuda_memory_new(struct device *base, enum memory_kind kind, size_t bytes);
void cuda_memory_free(struct device *base, enum memory_kind kind, void *memory, size_t bytes);

#endif
