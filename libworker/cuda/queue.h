/* Slots of device_ops.h: queues are streams, events are the stream's last CUDA_EVENTS. */
#ifndef CUDA_QUEUE_H
#define CUDA_QUEUE_H

#include "libworker/cuda/cuda.h"

struct queue *cuda_queue_new(struct device *device);
void cuda_queue_free(struct queue *queue);
struct event cuda_record(struct queue *queue);
void cuda_wait(struct queue *queue, struct event event);
void cuda_launch_run(struct queue *queue, const struct device_launch *launch);
void cuda_copy(struct queue *queue, const struct device_copy *copy);
void cuda_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes);
void cuda_finish(struct event event);
void cuda_transfer(struct queue *queue, const struct device_copy *copy);

#endif
