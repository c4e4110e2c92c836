#include "tests/cuda/fake/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "libworker/cuda/cuda.h"
#include "tests/lib/check.h"

static struct device_ops ops; /* the module's, with another end, and with other launches */
static const struct device_ops *module_ops;

struct hosted {
    void (*run)(struct queue *queue, const void *args);
    struct queue *queue;
    char args[LAUNCH_ARGS_MAX_BYTES];
};

static void run_hosted(void *arg)
{
    struct hosted *hosted = arg;
    if (!hosted->queue->device->code)
        hosted->run(hosted->queue, hosted->args);
}

static void launch_hosted(struct queue *queue, const struct device_launch *launch)
{
    struct hosted *hosted = malloc(sizeof(*hosted));
    CHECK(hosted);
    *hosted = (struct hosted){.run = launch->run, .queue = queue};
    if (launch->args_bytes)
        memcpy(hosted->args, launch->args, launch->args_bytes);
    struct fake_work work = {launch->name, run_hosted, free, hosted};
    struct cuda_queue *own = cuda_queue_of(queue);
    if (cuda_enter(own->device))
        (void)cuda_check(own, fake_enqueue(own->stream, &work), launch->name);
    else
        free(hosted);
}

static void gpu_free(struct device *device)
{
    module_ops->free(device);
    fake_end();
}

struct fake_options gpu_options(uint64_t seed)
{
    return (struct fake_options){.seed = seed, .devices = 1, .driver = 13000};
}

struct device *gpu_new(const struct fake_options *options)
{
    struct device *device = NULL;
    struct error err = {0};
    fake_begin(options);
    if (cuda_device_new(0, &device, &err))
        fprintf(stderr, "%s\n", err.text);
    CHECK(device);
    module_ops = device->ops;
    ops = *module_ops;
    ops.free = gpu_free;
    device->ops = &ops;
    cuda_device_of(device)->attention = ATTENTION_OWN;
    return device;
}

struct device *gpu_hosted(const struct fake_options *options)
{
    struct device *device = gpu_new(options);
    ops.kernel = NULL;
    ops.kernels = "cpu";
    ops.launch = launch_hosted;
    return device;
}

bool gpu_is_real(void)
{
    return false;
}

void *gpu_scratch(struct queue *queue)
{
    return cuda_queue_of(queue)->scratch;
}
