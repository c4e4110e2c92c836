#include "libworker/cuda/kernels/attention_kernels.h"
#include "libworker/cuda/kernels/attention_low.h"

void attention_launch_bf16(const struct attention_call *call, enum attention_kernel kernel,
                           int64_t samples, cudaStream_t stream)
{
    launch_engine<low_engine<gpu_bf16, WK_BF16>>(call, kernel, samples, stream);
}
