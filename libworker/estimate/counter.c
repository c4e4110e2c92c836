#include "libworker/estimate/counter.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/device/device_ops.h"

struct counter_device {
    struct device base;
    struct device_ops ops; /* with kernels, if those of `like` are its own */
    struct counter counter;
    uintptr_t next; /* address */
};

static const struct device_kernel *find_kernel(const struct device *device, const char *name)
{
    return device_kernel_find(((const struct counter_device *)device)->counter.like, name);
}

static void counter_free(struct device *device)
{
    free(device);
}

/* No allocation is there: nothing is lost if it is touched by mistake. */
static void *invent_memory(struct device *device, enum memory_kind kind, size_t bytes)
{
    struct counter_device *d = (struct counter_device *)device;
    uintptr_t at = d->next;
    (void)kind;
    d->next += (bytes / DEVICE_ALIGN_BYTES + 1) * DEVICE_ALIGN_BYTES;
    return (void *)at;
}

static void forget_memory(struct device *device, enum memory_kind kind, void *memory, size_t bytes)
{
    (void)device, (void)kind, (void)memory, (void)bytes;
}

static struct queue *counter_queue_new(struct device *device)
{
    struct queue *queue = calloc(1, sizeof(*queue));
    if (queue)
        queue->device = device;
    return queue;
}

static void counter_queue_free(struct queue *queue)
{
    free(queue);
}

static struct event counter_record(struct queue *queue)
{
    return (struct event){.queue = queue};
}

static void counter_wait(struct queue *queue, struct event event)
{
    (void)queue, (void)event;
}

static void counter_finish(struct event event)
{
    (void)event;
}

static void count(struct queue *queue, const struct counted *counted)
{
    const struct counter *counter = &((struct counter_device *)queue->device)->counter;
    counter->counted(counter->arg, counted);
}

static void count_launch(struct queue *queue, const struct device_launch *launch)
{
    const struct device *like = ((struct counter_device *)queue->device)->counter.like;
    const struct device_kernel *kernel = like ? device_kernel_find(like, launch->name) : NULL;
    struct counted counted = {
        .name = launch->name, .ranges = launch->n_ranges, .traffic = {.launches = 1}};
    for (int i = 0; i < launch->n_ranges; i++) {
        const struct device_range *range = &launch->ranges[i];
        counted.traffic.read += range->use & DEVICE_READ ? (double)range->bytes : 0;
        counted.traffic.written += range->use & DEVICE_WRITE ? (double)range->bytes : 0;
    }
    if (kernel && kernel->traffic)
        kernel->traffic(like, launch->args, &counted.traffic);
    count(queue, &counted);
}

static void count_copy(struct queue *queue, const struct device_copy *copy)
{
    bool reads = copy->way != COPY_SEND, writes = copy->way != COPY_FETCH;
    count(queue, &(struct counted){.name = COUNTED_COPY,
                                   .ranges = 1,
                                   .traffic = {.launches = 1,
                                               .read = reads ? (double)copy->bytes : 0,
                                               .written = writes ? (double)copy->bytes : 0}});
}

static void count_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes)
{
    (void)to, (void)byte;
    count(queue, &(struct counted){.name = COUNTED_FILL,
                                   .ranges = 1,
                                   .traffic = {.launches = 1, .written = (double)bytes}});
}

static const struct device_ops host_ops = {
    .name = "counter",
    .kernels = "cpu",
    .free = counter_free,
    .memory_new = invent_memory,
    .memory_free = forget_memory,
    .queue_new = counter_queue_new,
    .queue_free = counter_queue_free,
    .record = counter_record,
    .wait = counter_wait,
    .launch = count_launch,
    .copy = count_copy,
    .fill = count_fill,
    .finish = counter_finish,
    .transfer = count_copy,
};

int counter_new(const struct counter *counter, struct device **ret_device, struct error *err)
{
    const uintptr_t first = (uintptr_t)1 << 40;
    struct counter_device *device = calloc(1, sizeof(*device));
    if (!device)
        return error_set(err, WK_ENOMEM, "no memory to count a step's work");
    device->ops = host_ops;
    if (counter->like && device_has_kernels(counter->like))
        device->ops.kernel = find_kernel;
    device->base.ops = &device->ops;
    device->counter = *counter;
    device->next = first;
    *ret_device = &device->base;
    return 0;
}
