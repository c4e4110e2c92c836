#include "libworker/cuda/kernels/batch_value.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/grid.h"
#include "libworker/cuda/kernels/span.h"

namespace
{

enum { THREADS = 256 };

/* As libworker/graph/element.h. */
static __device__ __forceinline__ double number_of(struct gpu_array from, int64_t i)
{
    switch (from.type) {
    case WK_F32:
        return (double)((const float *)from.at)[i];
    case WK_F64:
        return ((const double *)from.at)[i];
    case WK_F16:
    case WK_BF16:
        return (double)value_of_bits(from.type, ((const uint16_t *)from.at)[i]);
    case WK_I32:
        return (double)((const int32_t *)from.at)[i];
    case WK_I64:
        return (double)((const int64_t *)from.at)[i];
    case WK_U8:
        return (double)((const uint8_t *)from.at)[i];
    case WK_BOOL:
        return ((const uint8_t *)from.at)[i] ? 1 : 0;
    }
    return 0;
}

static __device__ __forceinline__ int64_t whole_of(struct gpu_array from, int64_t i)
{
    if (from.type == WK_I64)
        return ((const int64_t *)from.at)[i];
    if (from.type == WK_U8)
        return ((const uint8_t *)from.at)[i];
    if (from.type == WK_BOOL)
        return ((const uint8_t *)from.at)[i] != 0;
    return ((const int32_t *)from.at)[i];
}

__global__ void batch_values(struct gpu_array to, struct gpu_array from, int64_t count)
{
    struct gpu_value value;
    value.at = to.at;
    value.type = to.type;
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
        if (to.type == WK_I32) {
            int64_t whole = from.at ? whole_of(from, i) : 0;
            whole = whole < INT32_MIN ? INT32_MIN : whole;
            ((int32_t *)to.at)[i] = (int32_t)(whole > INT32_MAX ? INT32_MAX : whole);
        } else {
            value_write(value, i, from.at ? (float)number_of(from, i) : 0.0f);
        }
    }
}

} // namespace

extern "C" void gpu_batch_values(struct gpu_array to, struct gpu_array from, int64_t count,
                                 cudaStream_t stream)
{
    if (count)
        GPU_LAUNCH(batch_values, grid_of(count, THREADS), THREADS, 0, stream, to, from, count);
}
