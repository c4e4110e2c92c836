/* Kernels and launches that the device tests share. A buffer is floats in device memory. */
#ifndef DEVICE_PROGRAMS_H
#define DEVICE_PROGRAMS_H

#include <stdlib.h>

#include "libworker/device/device.h"
#include "libworker/device/numbers.h"
#include "tests/lib/check.h"

/* out[i] = factor * in[i] + more, or that added to out[i]. */
struct affine {
    float *out;
    const float *in;
    int count;
    float factor, more;
    bool add;
};

static inline void run_affine(struct queue *queue, const void *args)
{
    (void)queue;
    const struct affine *a = args;
    for (int i = 0; i < a->count; i++)
        a->out[i] = (a->add ? a->out[i] : 0) + a->factor * a->in[i] + a->more;
}

/* Launch `run` with the args of a struct and the ranges that follow. */
#define LAUNCH(queue, text, function, arguments, ...)                                              \
    do {                                                                                           \
        const struct device_range ranges_[] = {__VA_ARGS__};                                       \
        queue_launch(queue, &(struct device_launch){                                               \
                                .name = (text),                                                    \
                                .run = (function),                                                 \
                                .args = &(arguments),                                              \
                                .args_bytes = sizeof(arguments),                                   \
                                .ranges = ranges_,                                                 \
                                .n_ranges = (int)(sizeof(ranges_) / sizeof(*ranges_))});           \
    } while (0)

static inline struct device_range uses(const void *at, int count, enum device_use use)
{
    return (struct device_range){at, (size_t)count * sizeof(float), use};
}

/* The affine launch, declared as it is. */
static inline void affine(struct queue *queue, const char *name, struct affine a)
{
    LAUNCH(queue, name, run_affine, a, uses(a.in, a.count, DEVICE_READ),
           uses(a.out, a.count, a.add ? DEVICE_UPDATE : DEVICE_WRITE));
}

static inline void *device_buffer(struct device *device, size_t bytes)
{
    void *memory = NULL;
    CHECK(device_memory_new(device, bytes, &memory, NULL) == 0);
    return memory;
}

static inline void *pinned_buffer(struct device *device, size_t bytes)
{
    void *memory = NULL;
    CHECK(device_pinned_new(device, bytes, &memory, NULL) == 0);
    return memory;
}

static inline struct queue *a_queue(struct device *device)
{
    struct queue *queue = NULL;
    CHECK(queue_new(device, &queue, NULL) == 0);
    return queue;
}

#endif
