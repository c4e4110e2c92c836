/* A queue for software that enqueues on it itself. The device's thread. */
#ifndef DEVICE_NATIVE_H
#define DEVICE_NATIVE_H

struct queue;

/* CUDA's stream, and its GPU, which is the calling thread's current one from then on. NULL and -1:
 * the device has no such thing. */
struct queue_native {
    void *stream;
    int number;
};
struct queue_native queue_native(struct queue *queue);

#endif
