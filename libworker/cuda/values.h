/* Tensors of an operation as its kernels take them (kernels/value.h). */
#ifndef CUDA_VALUES_H
#define CUDA_VALUES_H

#include "libworker/cuda/kernels/value.h"
#include "libworker/graph/op_call.h"

static inline struct gpu_value value_of(const struct op_tensor *tensor)
{
    return (struct gpu_value){.at = tensor->data, .type = tensor->type};
}

/* NULL where it is not wanted. */
static inline struct gpu_gradient gradient_of(const struct op_tensor *tensor)
{
    return (struct gpu_gradient){.at = tensor->data, .add = tensor->add};
}

#endif
