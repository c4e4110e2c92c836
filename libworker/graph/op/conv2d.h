/* The sizes of a convolution's call, which all devices' kernels go by. Pure. */
#ifndef OP_CONV2D_H
#define OP_CONV2D_H

#include <worker/graph.h>

#include "libworker/graph/op.h"

enum { CONV2D_IMAGE, CONV2D_WEIGHT, CONV2D_BIAS };

struct conv2d_sizes {
    int64_t samples, height, width; /* of the images */
    int64_t kernel, stride, padding;
    int64_t groups, channels, out; /* channels of a group: of the images, and of the result */
    int64_t down, across;          /* windows in a column and in a row of an image */
    int64_t length;                /* elements of a window */
};

/* Windows along a side of `size`. */
static inline int64_t conv2d_along(const struct conv2d_sizes *c, int64_t size)
{
    return (size + 2 * c->padding - c->kernel) / c->stride + 1;
}

static inline struct conv2d_sizes conv2d_sizes(const struct op_call *call)
{
    const struct wk_conv_options *o = call->node->attributes;
    const struct op_tensor *x = &call->in[CONV2D_IMAGE], *weight = &call->in[CONV2D_WEIGHT];
    struct conv2d_sizes c = {
        .samples = x->shape[0],
        .height = x->shape[2],
        .width = x->shape[3],
        .kernel = weight->shape[2],
        .stride = o->stride,
        .padding = o->padding,
        .groups = o->groups,
        .channels = weight->shape[1],
        .out = weight->shape[0] / o->groups,
        .length = weight->shape[1] * weight->shape[2] * weight->shape[3],
    };
    c.down = conv2d_along(&c, c.height);
    c.across = conv2d_along(&c, c.width);
    return c;
}

/* Samples that are multiplied at once, where each has `elements` of windows and `most` are to be
 * there: at least one. */
static inline int64_t conv2d_at_once(const struct conv2d_sizes *c, int64_t elements, int64_t most)
{
    int64_t at_once = most / elements;
    at_once = at_once < c->samples ? at_once : c->samples;
    return at_once > 1 ? at_once : 1;
}

#endif
