#include "libworker/cuda/kernels/attention_kernels.h"
#include "libworker/cuda/kernels/attention_low.h"

void attention_launch_f16(const struct attention_call *call, enum attention_kernel kernel,
                          int64_t samples, cudaStream_t stream)
{
    launch_engine<low_engine<gpu_f16, WK_F16>>(call, kernel, samples, stream);
}
