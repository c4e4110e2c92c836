/* The operation attention by cuDNN. Built without cuDNN's headers, all of it is the own kernels'.
 * The device's thread. */
#ifndef CUDA_ATTENTION_CUDNN_H
#define CUDA_ATTENTION_CUDNN_H

#include "common/base/str.h"
#include "libworker/cuda/cuda.h"
#include "libworker/device/kernels.h"
#include "libworker/graph/op_call.h"

enum { ATTENTION_ABOUT_BYTES = 384 };

/* The kernels that compute a call. */
struct attention_whose {
    const char *why_own; /* a clause; valid until the device is freed. NULL: cuDNN's */
    int cudnn;           /* its version, 0 without it */
};

#ifdef MUSTER_CUDNN

/* While a pass is laid out: make the plan of a call that is cuDNN's, and return what scratch memory
 * it needs. 0: it is the own kernels'. */
size_t attention_cudnn_prepare(struct cuda_device *device, const struct op_call *call,
                               bool backward);

/* Of a call that was prepared. */
struct attention_whose attention_cudnn_whose(struct cuda_device *device, const struct op_call *call,
                                             bool backward);

/* The bytes that cuDNN moves beyond each tensor once (device/kernels.h). False: own kernels compute
 * this call. */
bool attention_cudnn_traffic(struct cuda_device *device, const struct op_call *call, bool backward,
                             struct device_traffic *traffic);

/* Enqueue it. False: it is the own kernels'. */
bool attention_cudnn_run(const struct op_call *call, struct cuda_queue *queue, bool backward);

/* "attention by cuDNN 9.19.0", or "own attention: " and why. Opens the library. */
void attention_cudnn_about(struct cuda_device *device, char ret[ATTENTION_ABOUT_BYTES]);

#else

static inline size_t attention_cudnn_prepare(struct cuda_device *device, const struct op_call *call,
                                             bool backward)
{
    (void)device, (void)call, (void)backward;
    return 0;
}

static inline struct attention_whose
attention_cudnn_whose(struct cuda_device *device, const struct op_call *call, bool backward)
{
    (void)device, (void)call, (void)backward;
    return (struct attention_whose){.why_own = "the module is built without cuDNN"};
}

static inline bool attention_cudnn_traffic(struct cuda_device *device, const struct op_call *call,
                                           bool backward, struct device_traffic *traffic)
{
    (void)device, (void)call, (void)backward, (void)traffic;
    return false;
}

static inline bool attention_cudnn_run(const struct op_call *call, struct cuda_queue *queue,
                                       bool backward)
{
    (void)call, (void)queue, (void)backward;
    return false;
}

static inline void attention_cudnn_about(struct cuda_device *device,
                                         char ret[ATTENTION_ABOUT_BYTES])
{
    (void)device;
    (void)str_copy(ret, ATTENTION_ABOUT_BYTES, "own attention: built without cuDNN");
}

#endif
#endif
