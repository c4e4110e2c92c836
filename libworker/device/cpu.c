#include "libworker/device/cpu.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/device_ops.h"
#include "libworker/tensor/memory.h"

_Static_assert((int)MEMORY_ALIGN_BYTES == (int)DEVICE_ALIGN_BYTES, "one alignment");

static void cpu_free(struct device *device)
{
    free(device);
}

static void *cpu_memory_new(struct device *device, enum memory_kind kind, size_t bytes)
{
    (void)device;
    (void)kind;
    return memory_new(bytes);
}

static void cpu_memory_free(struct device *device, enum memory_kind kind, void *memory,
                            size_t bytes)
{
    (void)device;
    (void)kind;
    memory_free(memory, bytes);
}

static struct queue *cpu_queue_new(struct device *device)
{
    struct queue *queue = calloc(1, sizeof(*queue));
    if (queue)
        queue->device = device;
    return queue;
}

static void cpu_queue_free(struct queue *queue)
{
    free(queue);
}

static struct event cpu_record(struct queue *queue)
{
    return (struct event){.queue = queue};
}

static void cpu_wait(struct queue *queue, struct event event)
{
    (void)queue;
    (void)event;
}

static void cpu_launch(struct queue *queue, const struct device_launch *launch)
{
    if (!queue->device->code)
        launch->run(queue, launch->args);
}

static void cpu_copy(struct queue *queue, const struct device_copy *copy)
{
    if (!queue->device->code)
        memcpy(copy->to, copy->from, copy->bytes);
}

static void cpu_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes)
{
    if (!queue->device->code)
        memset(to, byte, bytes);
}

static void cpu_finish(struct event event)
{
    (void)event;
}

static const struct device_ops cpu_ops = {
    .name = "cpu",
    .kernels = "cpu",
    .host_reads = true,
    .fresh_zeros = true,
    .free = cpu_free,
    .memory_new = cpu_memory_new,
    .memory_free = cpu_memory_free,
    .queue_new = cpu_queue_new,
    .queue_free = cpu_queue_free,
    .record = cpu_record,
    .wait = cpu_wait,
    .launch = cpu_launch,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .finish = cpu_finish,
    .transfer = cpu_copy,
};

int device_cpu_new(struct device **ret_device, struct error *err)
{
    struct device *device = calloc(1, sizeof(*device));
    if (!device)
        return error_set(err, WK_ENOMEM, "no memory for the CPU's device");
    device->ops = &cpu_ops;
    *ret_device = device;
    return 0;
}

int cpu_open(struct queue **ret_queue, struct error *err)
{
    struct device *device = NULL;
    int rc = device_cpu_new(&device, err);
    if (rc)
        return rc;
    rc = queue_new(device, ret_queue, err);
    if (rc)
        device_free(device);
    return rc;
}

void cpu_close(struct queue *queue)
{
    struct device *device = queue ? queue->device : NULL;
    queue_free(queue);
    device_free(device);
}
