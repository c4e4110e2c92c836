/* The functions of cuda_runtime_api.h, CUDA 13.0. Each begins with fake_enter, which has its
 * errors, and ends with fake_leave, after which device memory is closed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/capture.h"
#include "tests/cuda/fake/hook.h"
#include "tests/cuda/fake/stream.h"

enum { RUNTIME = 13000, ARCH_MAJOR = 9, ARCH_MINOR = 0, SHARED_BYTES = 227 << 10 };

struct fake_state fake;

void fake_begin(const struct fake_options *options)
{
    if (fake.begun)
        fake_found("fake_begin twice");
    fake = (struct fake_state){.options = *options, .begun = true, .random = options->seed};
    hook_begin(options->seed);
}

void fake_end(void)
{
    fake_finish_all();
    if (fake_memory_live() || fake_streams_live() || graphs_live())
        fake_found("%d allocations, %d streams and %d graphs were not freed", fake_memory_live(),
                   fake_streams_live(), graphs_live());
    fake_memory_end();
    hook_end();
    fake = (struct fake_state){0};
}

struct fake_counts fake_counted(void)
{
    return fake.counts;
}

void fake_found(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "fake CUDA: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

/* SplitMix64 (Steele et al. 2014). */
uint64_t fake_random(uint64_t below)
{
    uint64_t x = fake.random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

cudaError_t fake_error(cudaError_t rc)
{
    if (rc != cudaSuccess)
        fake.last = rc;
    return rc;
}

static cudaError_t fake_leave(cudaError_t rc)
{
    fake_memory_close();
    return fake_error(fake.sticky ? fake.sticky : rc);
}

cudaError_t fake_enter(void)
{
    if (fake.options.driver < RUNTIME)
        return cudaErrorInsufficientDriver;
    if (!fake.options.devices)
        return cudaErrorNoDevice;
    return fake.sticky;
}

bool fake_is_scarce(void)
{
    return ++fake.counts.allocations == fake.options.scarce_at;
}

const char *cudaGetErrorName(cudaError_t rc)
{
    switch ((int)rc) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorInsufficientDriver:
        return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
        return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
        return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress:
        return "cudaErrorIllegalAddress";
    case cudaErrorStreamCaptureUnsupported:
        return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
        return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge:
        return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched:
        return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined:
        return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
        return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent:
        return "cudaErrorCapturedEvent";
    case cudaErrorIllegalState:
        return "cudaErrorIllegalState";
    default:
        return "cudaErrorUnknown";
    }
}

const char *cudaGetErrorString(cudaError_t rc)
{
    switch ((int)rc) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined:
        return "capturing stream has unjoined work";
    default:
        return "unknown error";
    }
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t last = fake.sticky ? fake.sticky : fake.last;
    fake.last = cudaSuccess;
    return last;
}

cudaError_t cudaPeekAtLastError(void)
{
    return fake.sticky ? fake.sticky : fake.last;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = fake.options.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t rc = fake_enter();
    *count = rc ? 0 : fake.options.devices;
    return fake_error(rc);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t rc = fake_enter();
    if (!rc && (device < 0 || device >= fake.options.devices))
        rc = cudaErrorInvalidDevice;
    if (!rc)
        fake.device = device;
    return fake_error(rc);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = fake.device;
    return fake_error(fake_enter());
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t rc = fake_enter();
    if (!rc && (device < 0 || device >= fake.options.devices))
        rc = cudaErrorInvalidDevice;
    if (rc)
        return fake_error(rc);
    *properties = (struct cudaDeviceProp){.major = ARCH_MAJOR,
                                          .minor = ARCH_MINOR,
                                          .multiProcessorCount = 132,
                                          .sharedMemPerBlockOptin = SHARED_BYTES};
    snprintf(properties->name, sizeof(properties->name), "fake GPU");
    return cudaSuccess;
}

static cudaError_t new_memory(bool pinned, void **ret, size_t bytes)
{
    cudaError_t rc = fake_enter();
    *ret = NULL;
    rc = rc ? rc : capture_forbids(NULL);
    if (rc || !bytes)
        return fake_error(rc);
    fake_run_some();
    *ret = fake_memory_new(pinned, bytes);
    return fake_leave(*ret ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMalloc(void **ret, size_t bytes)
{
    return new_memory(false, ret, bytes);
}

cudaError_t cudaMallocHost(void **ret, size_t bytes)
{
    return new_memory(true, ret, bytes);
}

/* Both wait for all work, and so does the host. */
static cudaError_t free_memory(bool pinned, void *memory)
{
    cudaError_t rc = fake_enter();
    if (rc == cudaErrorInsufficientDriver || rc == cudaErrorNoDevice || !memory)
        return fake_error(rc);
    rc = capture_forbids(NULL);
    if (rc)
        return fake_error(rc);
    fake_finish_all();
    if (!fake_memory_free(pinned, memory))
        fake_found("%s of %p, which it did not allocate", pinned ? "cudaFreeHost" : "cudaFree",
                   memory);
    return fake_leave(cudaSuccess);
}

cudaError_t cudaFree(void *memory)
{
    return free_memory(false, memory);
}

cudaError_t cudaFreeHost(void *memory)
{
    return free_memory(true, memory);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = fake.options.memory_bytes ? fake.options.memory_bytes : (size_t)64 << 30;
    *free_bytes = *total - fake_memory_used(fake.device);
    return fake_error(fake_enter());
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned flags)
{
    cudaError_t rc = fake_enter();
    if (!(flags & cudaStreamNonBlocking))
        fake_found("a stream that waits for the default one");
    *ret = rc || fake_is_scarce() ? NULL : stream_new();
    return fake_error(rc ? rc : *ret ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* What a call on a stream fails with. */
static cudaError_t enter_stream(cudaStream_t stream, bool own_device)
{
    cudaError_t rc = fake_enter();
    if (rc)
        return rc;
    if (!fake_stream_knows(stream))
        fake_found("%p is no stream", (void *)stream);
    return own_device && stream->device != fake.device ? cudaErrorInvalidResourceHandle
                                                       : cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (!fake_stream_knows(stream))
        fake_found("cudaStreamDestroy of %p, which is no stream", (void *)stream);
    if (is_captured(stream))
        fake_found("a stream is destroyed while it is captured");
    stream_free(stream);
    return fake_leave(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t rc = enter_stream(stream, false);
    if (!rc && is_captured(stream))
        rc = capture_forbids(stream);
    if (!rc)
        fake_finish_stream(stream);
    return fake_leave(rc);
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t rc = fake_enter();
    if (!rc)
        rc = capture_forbids(NULL);
    if (!rc)
        fake_finish_all();
    return fake_leave(rc);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
    cudaError_t rc = fake_enter();
    (void)flags;
    *ret = rc || fake_is_scarce() ? NULL : calloc(1, sizeof(**ret));
    if (*ret)
        (*ret)->device = fake.device;
    return fake_error(rc ? rc : *ret ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    mark_drop(event->mark);
    captured_event_drop(event);
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t rc = enter_stream(stream, true);
    if (!rc && event->device != stream->device)
        rc = cudaErrorInvalidResourceHandle;
    if (!rc && is_captured(stream)) {
        rc = capture_record(stream, event);
    } else if (!rc) {
        mark_drop(event->mark);
        captured_event_drop(event);
        event->mark = stream_mark(stream);
        fake_run_some();
    }
    return fake_leave(rc);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t rc = fake_enter();
    if (!rc && event->captured)
        rc = cudaErrorCapturedEvent;
    if (!rc && event->mark)
        host_wait(event->mark);
    return fake_leave(rc);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t rc = fake_enter();
    if (!rc && event->captured)
        rc = cudaErrorCapturedEvent;
    if (rc)
        return fake_error(rc);
    fake_run_some();
    bool done = !event->mark || event->mark->done;
    if (done && event->mark)
        host_wait(event->mark);
    rc = fake_leave(cudaSuccess);
    return rc || done ? rc : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t rc = enter_stream(stream, false);
    (void)flags;
    if (!rc && (event->captured || is_captured(stream))) {
        rc = capture_wait(stream, event);
    } else if (!rc && event->mark) {
        stream_wait(stream, event->mark);
        fake_run_some();
    }
    return fake_leave(rc);
}

cudaError_t fake_enqueue(cudaStream_t stream, const struct fake_work *work)
{
    cudaError_t rc = enter_stream(stream, true);
    if (!rc && is_captured(stream)) {
        rc = capture_work(stream, work);
    } else if (!rc) {
        fake.counts.calls++;
        stream_add(stream, work);
        fake_run_some();
    } else if (work->drop) {
        work->drop(work->arg);
    }
    return fake_leave(rc);
}

static bool is_host(const void *at, size_t bytes)
{
    return !fake_is_device(at, bytes);
}

/* To memory of the host that is not pinned the copy is done when this returns; from it, what is
 * there now is what arrives. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t rc = enter_stream(stream, false);
    bool sends = kind == cudaMemcpyHostToDevice, fetches = kind == cudaMemcpyDeviceToHost;
    if (!rc && (is_host(to, bytes) != fetches || is_host(from, bytes) != sends))
        fake_found("a copy %s from %p to %p, of %zu bytes, which are elsewhere or no memory",
                   sends     ? "to the device"
                   : fetches ? "to the host"
                             : "on the device",
                   from, to, bytes);
    if (rc || !bytes)
        return fake_error(rc);
    if (is_captured(stream))
        return fake_error(capture_copy(stream, to, from, bytes));
    fake.counts.calls++;
    fake_copy(stream, to, from, bytes);
    if (fetches && !fake_is_pinned(to, bytes))
        fake_finish_stream(stream);
    else
        fake_run_some();
    return fake_leave(rc);
}

struct fill {
    void *to;
    int byte;
    size_t bytes;
};

static void run_fill(void *arg)
{
    const struct fill *fill = arg;
    memset(fill->to, fill->byte, fill->bytes);
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    cudaError_t rc = enter_stream(stream, false);
    if (!rc && !fake_is_device(to, bytes))
        fake_found("a fill of %zu bytes at %p, which are no device memory", bytes, to);
    if (rc || !bytes)
        return fake_error(rc);
    struct fill *fill = malloc(sizeof(*fill));
    *fill = (struct fill){to, byte, bytes};
    return fake_enqueue(stream, &(struct fake_work){"fill", run_fill, free, fill});
}
