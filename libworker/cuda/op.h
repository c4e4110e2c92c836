/* An operation's kernels on a GPU. They do what the host's do (graph/op_call.h), and are enqueued
 * on queue->stream: the functions run on the host, never wait and read no memory of the device.
 * Where the row of graph/op.h has a kernel, so has the one of its name here.
 *
 * An operation is a file, or one of several in a file; its line in op_list.h makes it part of the
 * module. One thread.
 */
#ifndef CUDA_OP_H
#define CUDA_OP_H

#include "libworker/cuda/cuda.h"
#include "libworker/device/kernels.h"
#include "libworker/graph/op_call.h"

struct cuda_op {
    const char *name; /* the op_row's */
    void (*forward)(const struct op_call *call, struct cuda_queue *queue);
    void (*backward)(const struct op_call *call, struct cuda_queue *queue);
    size_t (*scratch_bytes)(const struct op_call *call, bool backward); /* NULL: none */

    /* What the kernels keep where that is not what the row says, for a plan. Change types and sizes
     * of call->out past the first; with count 0 there is none. Change *keeps, OP_IN and OP_OUT bits
     * of what backward reads. Of call->pass only `trains` is set. NULL: as the row says. */
    void (*keep)(struct op_call *call, unsigned *keeps);

    /* Gradients that the backward kernel may have in the compute type instead of f32, in bf16 or
     * f16. OP_IN bits are of those that it writes, where it need not add. OP_OUT(0) is that of its
     * result, which it would round in any case. NULL: none. */
    unsigned (*narrows)(const struct node *node);

    /* Of linear: its backward kernel can multiply the gradient of x by slopes of GELU, if that is
     * narrow (graph/bend.h). NULL: it cannot. */
    bool (*bends)(const struct node *node);

    /* While a pass is laid out: make what its calls of this shape need on the device, such as plans
     * that take a second. Returns the scratch memory that it may use, the larger of both. NULL:
     * nothing is to be made. */
    size_t (*prepare)(struct cuda_device *device, const struct op_call *call, bool backward);

    /* Which kernels compute such a call, and why (device/kernels.h), after prepare. NULL: it has
     * one. */
    void (*chosen)(struct cuda_device *device, const struct op_call *call, bool backward,
                   char ret[DEVICE_CHOSEN_BYTES]);
};

#endif
