/* nccl_place.h on the rehearsal device, which checks what is declared. Of the module only nccl.c is
 * here. */
#include "libworker/cuda/cuda.h"
#include "libworker/cuda/nccl.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "tests/cuda/nccl_place.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/own_wire.h"

static struct cuda_device cuda;

bool cuda_enter(struct cuda_device *device)
{
    return device == &cuda;
}

/* There is no runtime here. */
cudaError_t cudaDeviceSynchronize(void)
{
    return cudaErrorInsufficientDriver;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

struct device *own_wires_device(uint64_t seed, void (*found)(void *self, const char *sentence),
                                void *self)
{
    const struct rehearsal_options options = {.seed = seed, .found = found, .self = self};
    struct device *device = NULL;
    CHECK(rehearsal_new(&options, &device, NULL) == 0);
    return device;
}

struct device *place_device(struct device *device)
{
    (void)device;
    return &cuda.base;
}

/* The rehearsal device allocates its own: no memory can be shared, and the ranks agree to. */
void *place_real_memory(size_t bytes)
{
    (void)bytes;
    return NULL;
}

void place_free_memory(void *memory)
{
    CHECK(!memory);
}

void *place_memory(struct device *device, size_t bytes)
{
    (void)device;
    (void)bytes;
    return NULL;
}

int place_send(struct device_wire *wire, struct queue *queue, const struct wire_message *message,
               struct error *err)
{
    struct cuda_queue stream = {.device = &cuda, .stream = (cudaStream_t)(void *)queue};
    return nccl_wires.enqueue(wire, &stream.base, message, err);
}

static void run_work(struct queue *queue, const void *args)
{
    const struct fake_nccl_work *work = args;
    (void)queue;
    work->run(work->arg);
}

static void launch_work(struct queue *queue, const struct fake_nccl_work *work)
{
    const struct device_range ranges[] = {{work->in, work->in_bytes, DEVICE_READ},
                                          {work->out, work->out_bytes, DEVICE_WRITE}};
    queue_launch(queue, &(struct device_launch){.name = work->name,
                                                .run = run_work,
                                                .args = work,
                                                .args_bytes = sizeof(*work),
                                                .ranges = ranges,
                                                .n_ranges = 2});
}

void place_run(struct queue *queue, const struct fake_nccl_work *publish,
               const struct fake_nccl_work *receive)
{
    launch_work(queue, publish);
    queue->device->ops->finish(event_record(queue));
    launch_work(queue, receive);
}
