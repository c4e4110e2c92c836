#include "libworker/cuda/memory.h"

/* Memory of nothing has an address, too. */
static size_t some(size_t bytes)
{
    return bytes ? bytes : 1;
}

void *cuda_memory_new(struct device *base, enum memory_kind kind, size_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    void *memory = NULL;
    if (!cuda_enter(device))
        return NULL;
    cudaError_t rc = kind == MEMORY_PINNED ? cudaMallocHost(&memory, some(bytes))
                                           : cudaMalloc(&memory, some(bytes));
    if (rc == cudaSuccess)
        return memory;
    if (rc == cudaErrorMemoryAllocation || rc == cudaErrorInvalidValue)
        (void)cudaGetLastError(); /* the device stays usable */
    else
        (void)cuda_device_check(device, rc, "allocate memory");
    return NULL;
}

/* Also of a device that failed: there it may leave the memory to the process's end. */
void cuda_memory_free(struct device *base, enum memory_kind kind, void *memory, size_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    (void)bytes;
    (void)cudaSetDevice(device->number);
    if (kind == MEMORY_DEVICE && device->nccl_free && device->nccl_free(device, memory))
        return;
    cudaError_t rc = kind == MEMORY_PINNED ? cudaFreeHost(memory) : cudaFree(memory);
    (void)cuda_device_check(device, rc, "free memory");
}
