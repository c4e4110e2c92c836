/* Which GPUs there are, and one of them as a device. */
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/cuda/cuda.h"
#include "libworker/cuda/graphs.h"
#include "libworker/cuda/memory.h"
#ifdef MUSTER_NCCL
#include "libworker/cuda/nccl.h"
#include "libworker/cuda/nccl_api.h"
#endif
#include "libworker/cuda/queue.h"
#include "libworker/cuda/space.h"
#include "libworker/cuda/table.h"

enum { ARCH_LEAST = 80 };

/* Without a driver the runtime has the error of one that is too old. Versions are 1000 * major + 10
 * * minor. */
static int refuse_driver(struct error *err)
{
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetLastError();
    if (!driver)
        return error_set(err, WK_EUNSUPPORTED, "this machine has no NVIDIA driver");
    return error_set(err, WK_EUNSUPPORTED,
                     "the NVIDIA driver is for CUDA %d.%d; this build needs one for CUDA %d.%d",
                     driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

int cuda_count(int *ret_count, struct error *err)
{
    int count = 0;
    cudaError_t rc = cudaGetDeviceCount(&count);
    if (rc == cudaErrorInsufficientDriver)
        return refuse_driver(err);
    (void)cudaGetLastError();
    if (rc == cudaErrorNoDevice || (rc == cudaSuccess && count == 0))
        return error_set(err, WK_EUNSUPPORTED, "this process has no GPU");
    if (rc != cudaSuccess)
        return error_set(err, WK_EUNSUPPORTED, "the GPUs cannot be counted: %s (%s)",
                         cudaGetErrorString(rc), cudaGetErrorName(rc));
    *ret_count = count;
    return 0;
}

static void cuda_free(struct device *base)
{
    struct cuda_device *device = cuda_device_of(base);
    if (device->lt_close)
        device->lt_close(device);
    if (device->cudnn_close)
        device->cudnn_close(device);
    if (device->nccl_close)
        device->nccl_close(device);
    free(device->space);
    free(device);
}

static const struct device_kernel *cuda_kernel(const struct device *device, const char *name)
{
    (void)device;
    return table_find(name);
}

static const struct device_ops cuda_ops = {
    .name = "cuda",
    .kernels = "cuda",
#ifdef MUSTER_NCCL
    .wires = &nccl_wires,
#endif
    .replays = &cuda_replays,
    .spaces = &cuda_spaces,
    .kernel = cuda_kernel,
    .free = cuda_free,
    .memory_new = cuda_memory_new,
    .memory_free = cuda_memory_free,
    .queue_new = cuda_queue_new,
    .queue_free = cuda_queue_free,
    .native = cuda_native,
    .record = cuda_record,
    .wait = cuda_wait,
    .launch = cuda_launch_run,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .finish = cuda_finish,
    .transfer = cuda_transfer,
};

static void *plan_memory_new(struct device *device, enum memory_kind kind, size_t bytes)
{
    (void)device;
    (void)kind;
    (void)bytes;
    return NULL;
}

static struct queue *plan_queue_new(struct device *device)
{
    (void)device;
    return NULL;
}

static const struct device_ops plan_ops = {
    .name = "cuda",
    .kernels = "cuda",
    .kernel = cuda_kernel,
    .free = cuda_free,
    .memory_new = plan_memory_new,
    .queue_new = plan_queue_new,
};

int cuda_plan_device_new(int arch, struct device **ret_device, struct error *err)
{
    if (arch < ARCH_LEAST)
        return error_set(err, WK_EINVAL, "there is no module for sm_%d: it is for sm_%d and later",
                         arch, ARCH_LEAST);
    struct cuda_device *device = calloc(1, sizeof(*device));
    if (!device)
        return error_set(err, WK_ENOMEM, "no memory for a GPU's device");
    device->base.ops = &plan_ops;
    device->arch = arch;
    device->plans_alone = true;
    *ret_device = &device->base;
    return 0;
}

static int read_properties(struct cuda_device *device, struct error *err)
{
    struct cudaDeviceProp properties;
    cudaError_t rc = cudaGetDeviceProperties(&properties, device->number);
    if (rc != cudaSuccess) {
        (void)cudaGetLastError();
        return error_set(err, WK_EUNSUPPORTED, "GPU %d cannot be used: %s (%s)", device->number,
                         cudaGetErrorString(rc), cudaGetErrorName(rc));
    }
    (void)str_copy(device->name, sizeof(device->name), properties.name);
    device->arch = 10 * properties.major + properties.minor;
    device->multiprocessors = properties.multiProcessorCount;
    device->shared_bytes = properties.sharedMemPerBlockOptin;
    if (device->arch < ARCH_LEAST)
        return error_set(err, WK_EUNSUPPORTED,
                         "GPU %d, %s, is sm_%d; this build is for sm_%d and later", device->number,
                         device->name, device->arch, ARCH_LEAST);
    return 0;
}

int cuda_device_new(int number, struct device **ret_device, struct error *err)
{
    int count = 0;
    int rc = cuda_count(&count, err);
    if (rc)
        return rc;
    if (number < 0 || number >= count)
        return error_set(err, WK_EINVAL, "there is no GPU %d: this process has %d", number, count);
    struct cuda_device *device = calloc(1, sizeof(*device));
    if (!device)
        return error_set(err, WK_ENOMEM, "no memory for a GPU's device");
#ifdef MUSTER_NCCL
    nccl_api_prepare();
#endif
    device->base.ops = &cuda_ops;
    device->number = number;
    rc = read_properties(device, err);
    if (!rc && !cuda_enter(device))
        rc = device_failure(&device->base, err);
    if (rc)
        device_free(&device->base);
    else
        *ret_device = &device->base;
    return rc;
}
