#include "libworker/cuda/queue.h"

#include <stdlib.h>

static void free_queue(struct cuda_queue *queue)
{
    (void)cudaSetDevice(queue->device->number);
    for (int i = 0; i < CUDA_EVENTS; i++) {
        if (queue->events[i])
            (void)cudaEventDestroy(queue->events[i]);
    }
    if (queue->scratch)
        (void)cudaFree(queue->scratch);
    if (queue->stream)
        (void)cudaStreamDestroy(queue->stream);
    (void)cudaGetLastError();
    free(queue);
}

/* Streams that do not wait for the default one, which others in the process may use. */
static cudaError_t open_queue(struct cuda_queue *queue)
{
    cudaError_t rc = cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking);
    if (rc == cudaSuccess)
        rc = cudaMalloc(&queue->scratch, CUDA_SCRATCH_BYTES);
    if (rc == cudaSuccess)
        rc = cudaMemsetAsync(queue->scratch, 0, CUDA_SCRATCH_BYTES, queue->stream);
    return rc;
}

struct queue *cuda_queue_new(struct device *base)
{
    struct cuda_device *device = cuda_device_of(base);
    struct cuda_queue *queue = cuda_enter(device) ? calloc(1, sizeof(*queue)) : NULL;
    if (!queue)
        return NULL;
    queue->base.device = base;
    queue->device = device;
    cudaError_t rc = open_queue(queue);
    if (rc == cudaSuccess)
        return &queue->base;
    if (rc == cudaErrorMemoryAllocation)
        (void)cudaGetLastError(); /* the device stays usable */
    else
        (void)cuda_check(queue, rc, "make a stream");
    free_queue(queue);
    return NULL;
}

/* Its scratch memory waits for work that was never waited for: that of a pass that failed. */
void cuda_queue_free(struct queue *base)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    (void)cudaSetDevice(queue->device->number);
    (void)cudaStreamSynchronize(queue->stream);
    free_queue(queue);
}

struct queue_native cuda_native(struct queue *base)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    (void)cuda_enter(queue->device);
    return (struct queue_native){queue->stream, queue->device->number};
}

/* The runtime's event of a place in the queue. After CUDA_EVENTS others it is a later one of the
 * same queue, recorded before this wait is enqueued: so nothing waits in a circle. */
static cudaEvent_t *event_at(struct cuda_queue *queue, uint64_t at)
{
    return &queue->events[at % CUDA_EVENTS];
}

struct event cuda_record(struct queue *base)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    struct event event = {.queue = base, .at = ++queue->recorded};
    cudaEvent_t *own = event_at(queue, event.at);
    if (!cuda_enter(queue->device))
        return event;
    if (!*own &&
        !cuda_check(queue, cudaEventCreateWithFlags(own, cudaEventDisableTiming), "make an event"))
        return event;
    (void)cuda_check(queue, cudaEventRecord(*own, queue->stream), "record an event");
    return event;
}

void cuda_wait(struct queue *base, struct event event)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    cudaEvent_t other = *event_at(cuda_queue_of(event.queue), event.at);
    if (event.queue == base || !cuda_enter(queue->device) || !other)
        return;
    (void)cuda_check(queue, cudaStreamWaitEvent(queue->stream, other, 0), "wait for an event");
}

/* What was enqueued before a failure may still use the host's memory, so it is waited for, too. */
void cuda_finish(struct event event)
{
    struct cuda_queue *queue = cuda_queue_of(event.queue);
    cudaEvent_t own = *event_at(queue, event.at);
    bool recorded = cuda_enter(queue->device) && own;
    cudaError_t rc = recorded ? cudaEventSynchronize(own) : cudaStreamSynchronize(queue->stream);
    (void)cuda_check(queue, rc, "wait for the GPU");
}

void cuda_launch_run(struct queue *base, const struct device_launch *launch)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    if (!cuda_enter(queue->device))
        return;
    launch->run(base, launch->args);
    (void)cuda_check(queue, cudaGetLastError(), launch->name);
}

static enum cudaMemcpyKind kind_of(enum copy_way way)
{
    return way == COPY_SEND    ? cudaMemcpyHostToDevice
           : way == COPY_FETCH ? cudaMemcpyDeviceToHost
                               : cudaMemcpyDeviceToDevice;
}

void cuda_copy(struct queue *base, const struct device_copy *copy)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    if (cuda_enter(queue->device))
        (void)cuda_check(
            queue,
            cudaMemcpyAsync(copy->to, copy->from, copy->bytes, kind_of(copy->way), queue->stream),
            "copy");
}

void cuda_fill(struct queue *base, void *to, unsigned char byte, size_t bytes)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    if (cuda_enter(queue->device))
        (void)cuda_check(queue, cudaMemsetAsync(to, byte, bytes, queue->stream), "fill memory");
}

void cuda_transfer(struct queue *base, const struct device_copy *copy)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    cuda_copy(base, copy);
    if (!queue->device->base.code)
        (void)cuda_check(queue, cudaStreamSynchronize(queue->stream), "wait for a copy");
}
