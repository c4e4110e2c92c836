/* cuDNN on a GPU: its library and handle, opened when the first attention is prepared, and plans,
 * one a shape. They are the device's, and end with it. One thread at a time uses a device.
 *
 * Plans are made while a pass is laid out, since one needs a second. A shape that has no plan when
 * it runs is the own kernels'. At most CUDNN_PLANS_MAX shapes have plans; a shape that
 * cuDNN refuses is remembered.
 */
#ifndef CUDA_CUDNN_H
#define CUDA_CUDNN_H

#include "libworker/cuda/attention_rule.h"
#include "libworker/cuda/cuda.h"
#include "libworker/cuda/cudnn_attention.h"

enum { CUDNN_PLANS_MAX = 64, CUDNN_WHY_BYTES = 128 };

/* The library's version, or 0: there is none that can be used. *ret_why, if not NULL, is then the
 * sentence. Opens the library the first time. */
int cudnn_version_of(struct cuda_device *device, const char **ret_why);

/* Make the plan, unless it is there. NULL: cuDNN refuses the shape, or there are too many. */
const struct cudnn_graph *cudnn_plan_prepare(struct cuda_device *device,
                                             const struct cudnn_attention *attention);
/* The plan, if it is there. */
const struct cudnn_graph *cudnn_plan_find(struct cuda_device *device,
                                          const struct cudnn_attention *attention);

/* Of a shape that was prepared: why it has no plan, cut to CUDNN_WHY_BYTES. NULL: it has one. */
const char *cudnn_plan_refused(struct cuda_device *device, const struct cudnn_attention *attention);

/* Enqueue it: cudnn_graph_run. A failure is the device's. */
void cudnn_plan_run(struct cuda_queue *queue, const struct cudnn_graph *plan, void *const *memory,
                    void *workspace);

/* Shapes that the device has plans for, and those that cuDNN refused. */
struct cudnn_counts {
    int plans, refused;
};
struct cudnn_counts cudnn_counted(const struct cuda_device *device);

#endif
