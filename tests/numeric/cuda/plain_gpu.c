#include "tests/numeric/cuda/plain_gpu.h"

#include <string.h>

#include "libworker/cuda/launch.h"
#include "libworker/cuda/launch_list.h"
#include "libworker/device/cpu.h"
#include "tests/lib/check.h"

static struct device_ops gpu_ops;
static const char *missing; /* NULL: nothing is */

#define X(name)                                                                                    \
    extern const struct cuda_launch cuda_launch_##name;                                            \
    static void run_##name(struct queue *queue, const void *args)                                  \
    {                                                                                              \
        (void)queue;                                                                               \
        plain_gpu_run(&cuda_launch_##name, args);                                                  \
    }
CUDA_LAUNCH_PLAIN(X)
#undef X

static const struct {
    const struct cuda_launch *launch;
    struct device_kernel kernel;
} launches[] = {
#define X(name) {&cuda_launch_##name, {run_##name, NULL}},
    CUDA_LAUNCH_PLAIN(X)
#undef X
};

static const struct device_kernel *find_kernel(const struct device *device, const char *name)
{
    size_t length = strlen(name), end = missing ? strlen(missing) : 0;
    (void)device;
    if (missing && length >= end && !strcmp(name + length - end, missing))
        return NULL;
    for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
        if (!strcmp(launches[i].launch->name, name))
            return &launches[i].kernel;
    }
    return NULL;
}

struct queue *plain_gpu_open(void)
{
    return plain_gpu_without(NULL);
}

struct queue *plain_gpu_without(const char *end)
{
    missing = end;
    struct queue *queue = NULL;
    CHECK(cpu_open(&queue, NULL) == 0);
    gpu_ops = *queue->device->ops;
    gpu_ops.name = gpu_ops.kernels = "cuda";
    gpu_ops.kernel = find_kernel;
    queue->device->ops = &gpu_ops;
    return queue;
}

void plain_gpu_close(struct queue *queue)
{
    cpu_close(queue);
}
