#include "libworker/cuda/kernels/attention_float.h"
#include "libworker/cuda/kernels/attention_kernels.h"

void attention_launch_f32(const struct attention_call *call, enum attention_kernel kernel,
                          int64_t samples, cudaStream_t stream)
{
    launch_engine<float_engine>(call, kernel, samples, stream);
}
