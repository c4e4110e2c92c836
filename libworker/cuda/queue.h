/* Slots of device_ops.h: queues are streams, events are the stream's last CUDA_EVENTS. */
#ifndef CUDA_QUEUE_H
#define CUDA_QUEUE_H

#include "libworker/cuda/cuda.h"

struct queue *cuda_queue_new(struct device *base);
void cuda_queue_free(struct queue *base);
struct queue_native cuda_native(struct queue *base);
struct event cuda_record(struct queue *base);
void cuda_wait(struct queue *base, struct event event);
void cuda_launch_run(struct queue *base, const struct device_launch *launch);
void cuda_copy(struct queue *base, const struct device_copy *copy);
void cuda_fill(struct queue *base, void *to, unsigned char byte, size_t bytes);
void cuda_finish(struct event event);
void cuda_transfer(struct queue *base, const struct device_copy *copy);

#endif
