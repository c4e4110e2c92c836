/* Where the fake NCCL's streams are: the rehearsal device's queues (nccl_rehearsal.c), or those of
 * the module's device over the fake runtime (fake/nccl_gpu.c). */
#ifndef CUDA_NCCL_PLACE_H
#define CUDA_NCCL_PLACE_H

#include "libworker/device/wire_ops.h"
#include "tests/cuda/fake_nccl.h"

/* What the module's wires take as this device. */
struct device *place_device(struct device *device);

/* Device memory of the fake's ncclMemAlloc; and the slot of wires that allocates it. */
void *place_real_memory(size_t bytes);
void place_free_memory(void *memory);
void *place_memory(struct device *device, size_t bytes);

/* Their enqueue, with the queue's stream. */
int place_send(struct device_wire *wire, struct queue *queue, const struct wire_message *message,
               struct error *err);

/* Run what this rank contributes to a message, and enqueue what it gets. */
void place_run(struct queue *queue, const struct fake_nccl_work *publish,
               const struct fake_nccl_work *receive);

#endif
