/* Memory of collectives. NCCL maps memory of ncclMemAlloc into the other GPUs of the host, which
 * then read and write it in place of copies through NCCL's own buffers. Memory of cudaMalloc it
 * does not map. Sizes are rounded up to a page of the GPU, which is 2 MiB.
 *
 *     shared       a window, which all ranks register at the same time
 *     other        ncclCommRegister, by each rank alone
 *
 * A rank whose NCCL has no such memory has ordinary memory; then no rank shares its own. Sources:
 * NCCL user guide, user buffer registration; NCCL 2.28.9, allocator.cc and dev_runtime.cc.
 *
 * The device's thread.
 */
#ifndef CUDA_NCCL_MEMORY_H
#define CUDA_NCCL_MEMORY_H

#include "libworker/device/wire_ops.h"

struct cuda_device;

/* Slots of wire_ops.h. nccl_memory_new is NULL also where the library was not prepared: this
 * process has no other ranks. */
void *nccl_memory_new(struct device *base, size_t bytes);
bool nccl_memory_shares(const struct device_wire *wire, const void *at);
int nccl_memory_enroll(struct device_wire *wire, const struct wire_memory *memory,
                       struct error *err);

/* All memory of a wire that works, before its communicator ends. */
void nccl_memory_withdraw(struct device_wire *wire);

/* Before memory of the device is freed: no wire has it enrolled any more. True: it was
 * nccl_memory_new's, and is freed. */
bool nccl_memory_free(struct cuda_device *device, void *memory);

#endif
