/* Attributes of operations on elements and shapes, as their nodes have them: for the operations'
 * own files, and for kernels of other devices. Plain data. */
#ifndef OP_ATTRIBUTES_H
#define OP_ATTRIBUTES_H

#include <stdint.h>

#include <worker/graph.h>

struct scale_attributes {
    double factor;
};

struct leaky_relu_attributes {
    double slope; /* below 0 */
};

struct dropout_attributes {
    double share; /* below 0: the model's */
};

struct convert_attributes {
    enum wk_dtype type;
};

struct window_attributes {
    int64_t positions;
};

struct transpose_attributes {
    int order[WK_TENSOR_DIMS_MAX];
};

struct slice_attributes {
    int dim;
    int64_t first, count;
};

struct concat_attributes {
    int dim;
};

struct reduce_attributes {
    enum wk_reduce kind;
    int dim;
};

struct rope_attributes {
    int heads;
    int64_t size;
    double theta;
    struct wk_rope_scaling scaling;
};

#endif
