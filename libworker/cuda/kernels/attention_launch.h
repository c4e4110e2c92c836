/* Private to attention: the three kernels with tiles, built once for each type of products. They
 * work on `samples` from call->sample on, whose blocks fit into a grid. */
#ifndef CUDA_KERNELS_ATTENTION_LAUNCH_H
#define CUDA_KERNELS_ATTENTION_LAUNCH_H

#include "libworker/cuda/kernels/attention.h"

enum attention_kernel { ATTENTION_FORWARD, ATTENTION_KEYS, ATTENTION_QUERIES };

typedef void attention_launch(const struct attention_call *call, enum attention_kernel kernel,
                              int64_t samples, cudaStream_t stream);
attention_launch attention_launch_f32, attention_launch_bf16, attention_launch_f16;

#endif
