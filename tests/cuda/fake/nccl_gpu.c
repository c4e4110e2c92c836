/* nccl_place.h on the module's device over the fake runtime, with the CPU's functions as kernels:
 * its memory, streams, events and copies with NCCL's work between them. */
#include "libworker/cuda/cuda.h"
#include "libworker/cuda/nccl.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/cuda/nccl_place.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/own_wire.h"

struct device *own_wires_device(uint64_t seed, void (*found)(void *self, const char *sentence),
                                void *self)
{
    const struct fake_options options = gpu_options(seed);
    (void)found;
    (void)self;
    return gpu_hosted(&options);
}

struct device *place_device(struct device *device)
{
    return device;
}

void *place_real_memory(size_t bytes)
{
    void *memory = NULL;
    return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : NULL;
}

void place_free_memory(void *memory)
{
    CHECK(cudaFree(memory) == cudaSuccess);
}

void *place_memory(struct device *device, size_t bytes)
{
    return nccl_wires.memory_new(device, bytes);
}

int place_send(struct device_wire *wire, struct queue *queue, const struct wire_message *message,
               struct error *err)
{
    return nccl_wires.enqueue(wire, queue, message, err);
}

static void enqueue_work(struct queue *queue, const struct fake_nccl_work *work)
{
    const struct fake_work own = {.name = work->name, .run = work->run, .arg = work->arg};
    CHECK(fake_enqueue(cuda_queue_of(queue)->stream, &own) == cudaSuccess);
}

void place_run(struct queue *queue, const struct fake_nccl_work *publish,
               const struct fake_nccl_work *receive)
{
    enqueue_work(queue, publish);
    queue->device->ops->finish(event_record(queue));
    enqueue_work(queue, receive);
}
