/* A GPU as a device (device/device.h), through the CUDA runtime. A queue is a stream.
 *
 *     device.c   which GPUs there are, opening one, its table
 *     check.c    errors of the runtime
 *     memory.c   device and pinned memory
 *     space.c    addresses apart from memory
 *     queue.c    streams, events, copies, fills
 *     graphs.c   what a stream does again and again, as CUDA graphs
 *     table.c    kernels by name, from op_list.h and launch_list.h
 *
 * Calls of the runtime that fail make the device fail (device.h): its first sentence stays, and
 * nothing runs any more. An error of a kernel is noticed by a later call, or by a wait. The process
 * can then not use the GPU again. Memory that cannot be had is no failure.
 *
 * One thread at a time uses a device; each entry makes its GPU the thread's current one. Part of
 * the module libworker-cuda.so (device/module.h), which only has what it links.
 */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libworker/cuda/attention_rule.h"
#include "libworker/device/device_ops.h"

enum {
    CUDA_EVENTS = 256,            /* of a queue; one more is that of an older one */
    CUDA_SCRATCH_BYTES = 1 << 20, /* of a queue */
    CUDA_NAME_BYTES = 256,
};

struct cuda_space;
struct device_wire;
struct nccl_library;
struct nccl_piece;

struct cuda_device {
    struct device base; /* first */
    int number;
    char name[CUDA_NAME_BYTES]; /* "NVIDIA H200" */
    int arch;                   /* 10 * major + minor of its compute capability */
    int multiprocessors;
    size_t shared_bytes; /* of a block, at most */
    void *lt;            /* of lt.c, made when first used; freed by lt_close */
    void (*lt_close)(struct cuda_device *);
    void *cudnn; /* of cudnn.c, likewise */
    void (*cudnn_close)(struct cuda_device *);
    struct nccl_library *nccl; /* of nccl_library.c, likewise */
    void (*nccl_close)(struct cuda_device *);
    struct cuda_space *space;       /* of space.c, made when first used */
    struct device_wire *wires;      /* the open ones of nccl.c */
    struct nccl_piece *nccl_pieces; /* memory of nccl_memory.c; all is freed before the device */
    bool (*nccl_free)(struct cuda_device *, void *memory); /* its end of memory; NULL: none is */
    enum attention_choice attention;                       /* the setting */
    bool plans_alone;          /* it is cuda_plan_device_new's: there is no GPU */
    bool captures;             /* a stream is being captured (graphs.h) */
    cudaError_t capture_error; /* the first one meanwhile, or cudaSuccess */
};

struct cuda_queue {
    struct queue base; /* first */
    struct cuda_device *device;
    cudaStream_t stream;
    /* Device memory of CUDA_SCRATCH_BYTES, aligned to 256, for what one launch hands from kernel to
     * kernel, such as parts of sums. Undefined between launches, and zeros at first. */
    void *scratch;
    uint64_t recorded; /* events */
    cudaEvent_t events[CUDA_EVENTS];
};

static inline struct cuda_device *cuda_device_of(const struct device *device)
{
    return (struct cuda_device *)(void *)(uintptr_t)device;
}

static inline struct cuda_queue *cuda_queue_of(struct queue *queue)
{
    return (struct cuda_queue *)(void *)queue;
}

/* How many GPUs this process may use. WK_EUNSUPPORTED, with why: no driver, one that is too old, no
 * GPU. */
int cuda_count(int *ret_count, struct error *err);

/* GPU `number` of them. WK_EINVAL without such a GPU, WK_EUNSUPPORTED for one that is older than
 * sm_80, WK_ENOMEM. Free with device_free. */
int cuda_device_new(int number, struct device **ret_device, struct error *err);

/* A GPU that is not here, for plans: it finds kernels, and has no memory and no queues. WK_EINVAL
 * for an architecture below sm_80, WK_ENOMEM. Free with device_free. */
int cuda_plan_device_new(int arch, struct device **ret_device, struct error *err);

/* Unless `rc` is cudaSuccess: the device fails with "WHAT: the runtime's sentence". True: go on. */
bool cuda_check(struct cuda_queue *queue, cudaError_t rc, const char *what);
bool cuda_device_check(struct cuda_device *device, cudaError_t rc, const char *what);

/* Make this GPU the thread's current one. False: the device has failed, now or before. */
bool cuda_enter(struct cuda_device *device);

#endif
