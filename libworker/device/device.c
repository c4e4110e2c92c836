#include "libworker/device/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <worker/error.h>

#include "common/base/assert.h"
#include "libworker/device/replay_ops.h"
#include "libworker/device/wire_ops.h"

/* Before what is no part of a graph. */
static void end_sequence(struct queue *queue)
{
    if (queue->in_section)
        replay_cut(queue);
}

void device_free(struct device *device)
{
    if (!device)
        return;
    free(device->failure);
    free(device->remarks);
    device->failure = NULL;
    device->remarks = NULL;
    device->ops->free(device);
}

const char *device_name(const struct device *device)
{
    return device->ops->name;
}

const char *device_kernels(const struct device *device)
{
    return device->ops->kernels;
}

bool device_host_reads(const struct device *device)
{
    return device->ops->host_reads;
}

const struct wire_ops *device_wires(const struct device *device)
{
    return device->ops->wires;
}

int device_failure(const struct device *device, struct error *err)
{
    if (!device->code)
        return 0;
    const struct error *failure = device->failure;
    const char *text = failure ? failure->text : "no memory for its sentence";
    return error_set(err, device->code, "device %s: %s", device->ops->name, text);
}

bool device_has_kernels(const struct device *device)
{
    return device->ops->kernel;
}

const struct device_kernel *device_kernel_find(const struct device *device, const char *name)
{
    return device->ops->kernel ? device->ops->kernel(device, name) : NULL;
}

int device_kernel_need(const struct device *device, const char *kind, const char *name,
                       struct error *err)
{
    if (!device->ops->kernel || device->ops->kernel(device, name))
        return 0;
    return error_set(err, WK_EUNSUPPORTED,
                     "device %s has no kernel for the %s \"%s\"; the CPU has it: set device to cpu",
                     device->ops->name, kind, name);
}

static const char *const kind_names[] = {[MEMORY_DEVICE] = "device", [MEMORY_PINNED] = "pinned"};

static int memory_allocate(struct device *device, enum memory_kind kind, size_t bytes, void **ret,
                           struct error *err)
{
    void *memory = device->ops->memory_new(device, kind, bytes);
    int rc = memory ? 0 : device_failure(device, err);
    if (rc)
        return rc;
    if (!memory)
        return error_set(err, WK_ENOMEM, "device %s has no %zu bytes of %s memory left",
                         device->ops->name, bytes, kind_names[kind]);
    *ret = memory;
    return 0;
}

int device_memory_new(struct device *device, size_t bytes, void **ret_memory, struct error *err)
{
    return memory_allocate(device, MEMORY_DEVICE, bytes, ret_memory, err);
}

void device_memory_free(struct device *device, void *memory, size_t bytes)
{
    if (memory)
        device->ops->memory_free(device, MEMORY_DEVICE, memory, bytes);
}

int device_zeros_new(struct queue *queue, size_t bytes, void **ret_memory, struct error *err)
{
    int rc = device_memory_new(queue->device, bytes, ret_memory, err);
    if (!rc && !queue->device->ops->fresh_zeros)
        queue_fill(queue, *ret_memory, 0, bytes);
    return rc;
}

int wire_zeros_new(struct queue *queue, size_t bytes, void **ret_memory, struct error *err)
{
    const struct wire_ops *wires = queue->device->ops->wires;
    void *memory = wires && wires->memory_new ? wires->memory_new(queue->device, bytes) : NULL;
    if (!memory)
        return device_zeros_new(queue, bytes, ret_memory, err);
    queue_fill(queue, memory, 0, bytes);
    *ret_memory = memory;
    return 0;
}

int device_pinned_new(struct device *device, size_t bytes, void **ret_memory, struct error *err)
{
    return memory_allocate(device, MEMORY_PINNED, bytes, ret_memory, err);
}

void device_pinned_free(struct device *device, void *memory, size_t bytes)
{
    if (memory)
        device->ops->memory_free(device, MEMORY_PINNED, memory, bytes);
}

int queue_new(struct device *device, struct queue **ret_queue, struct error *err)
{
    if (device->n_queues == DEVICE_QUEUES_MAX)
        return error_set(err, WK_ENOMEM, "device %s has %d queues, which is the limit",
                         device->ops->name, DEVICE_QUEUES_MAX);
    struct queue *queue = device->ops->queue_new(device);
    if (!queue)
        return error_set(err, WK_ENOMEM, "device %s has no memory for a queue", device->ops->name);
    device->n_queues++;
    *ret_queue = queue;
    return 0;
}

void queue_free(struct queue *queue)
{
    if (!queue)
        return;
    replay_free(queue);
    queue->device->n_queues--;
    queue->device->ops->queue_free(queue);
}

struct device *queue_device(const struct queue *queue)
{
    return queue->device;
}

struct queue_native queue_native(struct queue *queue)
{
    const struct device_ops *ops = queue->device->ops;
    end_sequence(queue);
    return ops->native ? ops->native(queue) : (struct queue_native){NULL, -1};
}

struct event event_record(struct queue *queue)
{
    end_sequence(queue);
    return queue->device->ops->record(queue);
}

void queue_wait(struct queue *queue, struct event event)
{
    if (!event.queue)
        return;
    insist(event.queue->device == queue->device);
    end_sequence(queue);
    queue->device->ops->wait(queue, event);
}

int event_wait(struct event event, struct error *err)
{
    if (!event.queue)
        return 0;
    event.queue->device->ops->finish(event);
    return device_failure(event.queue->device, err);
}

int queue_finish(struct queue *queue, struct error *err)
{
    return event_wait(event_record(queue), err);
}

static void copy(struct queue *queue, const struct device_copy *copy)
{
    if (!copy->bytes)
        return;
    if (queue->in_section)
        replay_take(queue, &(struct replay_work){.kind = REPLAY_COPY, .copy = *copy});
    else
        queue->device->ops->copy(queue, copy);
}

void queue_send(struct queue *queue, void *to, const void *from, size_t bytes)
{
    copy(queue, &(struct device_copy){COPY_SEND, to, from, bytes});
}

void queue_fetch(struct queue *queue, void *to, const void *from, size_t bytes)
{
    copy(queue, &(struct device_copy){COPY_FETCH, to, from, bytes});
}

void queue_copy(struct queue *queue, void *to, const void *from, size_t bytes)
{
    copy(queue, &(struct device_copy){COPY_WITHIN, to, from, bytes});
}

void queue_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes)
{
    if (!bytes)
        return;
    if (queue->in_section)
        replay_take(queue, &(struct replay_work){.kind = REPLAY_FILL,
                                                 .byte = byte,
                                                 .copy = {.to = to, .bytes = bytes}});
    else
        queue->device->ops->fill(queue, to, byte, bytes);
}

static void launch_now(struct queue *queue, const struct device_launch *launch)
{
    if (queue->in_section)
        replay_take(queue, &(struct replay_work){.kind = REPLAY_LAUNCH, .launch = *launch});
    else
        queue->device->ops->launch(queue, launch);
}

static void launch_own(struct queue *queue, const struct device_launch *launch)
{
    const struct device_kernel *kernel = queue->device->ops->kernel(queue->device, launch->name);
    if (!kernel) {
        queue_fail(queue, WK_EUNSUPPORTED, "it has no kernel for \"%s\"", launch->name);
        return;
    }
    struct device_launch own = *launch;
    own.run = kernel->run;
    launch_now(queue, &own);
}

void queue_launch(struct queue *queue, const struct device_launch *launch)
{
    insist(launch->args_bytes <= LAUNCH_ARGS_MAX_BYTES);
    insist(launch->n_ranges <= LAUNCH_RANGES_MAX);
    if (queue->device->ops->kernel)
        launch_own(queue, launch);
    else
        launch_now(queue, launch);
}

static int transfer(struct queue *queue, const struct device_copy *copy, struct error *err)
{
    end_sequence(queue);
    if (copy->bytes)
        queue->device->ops->transfer(queue, copy);
    return device_failure(queue->device, err);
}

int queue_read(struct queue *queue, void *to, const void *from, size_t bytes, struct error *err)
{
    return transfer(queue, &(struct device_copy){COPY_FETCH, to, from, bytes}, err);
}

int queue_write(struct queue *queue, void *to, const void *from, size_t bytes, struct error *err)
{
    return transfer(queue, &(struct device_copy){COPY_SEND, to, from, bytes}, err);
}

void queue_fail(struct queue *queue, int code, const char *fmt, ...)
{
    struct device *device = queue->device;
    struct error *failure = calloc(1, sizeof(*failure)), *none = NULL;
    insist(code < 0);
    if (failure) {
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(failure->text, sizeof(failure->text), fmt, args);
        va_end(args);
    }
    /* The sentence first: a thread that reads the code finds it. */
    if (failure && !atomic_compare_exchange_strong(&device->failure, &none, failure)) {
        free(failure);
        return;
    }
    int zero = 0;
    (void)atomic_compare_exchange_strong(&device->code, &zero, code);
}
