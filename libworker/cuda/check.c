/* Errors of the runtime as failures of the device. */
#include <worker/error.h>

#include "libworker/cuda/cuda.h"

bool cuda_device_check(struct cuda_device *device, cudaError_t rc, const char *what)
{
    struct queue any = {.device = &device->base};
    if (rc == cudaSuccess)
        return true;
    if (device->captures) {
        device->capture_error = device->capture_error ? device->capture_error : rc;
        (void)cudaGetLastError();
        return false;
    }
    int code = rc == cudaErrorMemoryAllocation ? WK_ENOMEM : WK_EIO;
    queue_fail(&any, code, "%s: %s (%s)", what, cudaGetErrorString(rc), cudaGetErrorName(rc));
    (void)cudaGetLastError(); /* a sticky one returns */
    return false;
}

bool cuda_check(struct cuda_queue *queue, cudaError_t rc, const char *what)
{
    return cuda_device_check(queue->device, rc, what);
}

bool cuda_enter(struct cuda_device *device)
{
    return !device->base.code &&
           cuda_device_check(device, cudaSetDevice(device->number), "choose the GPU");
}
