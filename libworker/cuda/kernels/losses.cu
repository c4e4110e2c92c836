#include "libworker/cuda/kernels/losses.h"

#include <math.h>

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/flat.h"

namespace
{

static __device__ __forceinline__ float loss_of(enum gpu_loss loss, float x, float target)
{
    if (loss == GPU_SQUARED_ERROR)
        return (x - target) * (x - target);
    return (x > 0 ? x : 0.0f) - x * target + log1pf(expf(-fabsf(x)));
}

/* 1 / (1 + exp(-x)), from the power that is at most 1. */
static __device__ __forceinline__ float sigmoid_of(float x)
{
    float fall = expf(-fabsf(x));
    return (x < 0 ? fall : 1.0f) / (1.0f + fall);
}

/* By x, or by the target. */
static __device__ __forceinline__ float slope_of(enum gpu_loss loss, bool of_target, float x,
                                                 float target)
{
    if (loss == GPU_SQUARED_ERROR)
        return 2.0f * (of_target ? target - x : x - target);
    return of_target ? -x : sigmoid_of(x) - target;
}

__global__ void pair_losses(struct gpu_pair p, struct gpu_value out)
{
    for (int64_t at = flat_first(); at < p.count; at += flat_step()) {
        struct span s = flat_span(at, p.count);
        float x[SPAN], target[SPAN];
        span_read(s, p.x, 0, x);
        span_read(s, p.target, 0, target);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            x[j] = loss_of(p.loss, x[j], target[j]);
        span_write(s, out, 0, x);
    }
}

__global__ void pair_slopes(struct gpu_pair p, const float *dout, struct gpu_gradient gradient,
                            bool of_target)
{
    for (int64_t at = flat_first(); at < p.count; at += flat_step()) {
        struct span s = flat_span(at, p.count);
        float x[SPAN], target[SPAN], d[SPAN];
        span_read(s, p.x, 0, x);
        span_read(s, p.target, 0, target);
        span_read(s, floats_value(dout), 0, d);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            d[j] *= slope_of(p.loss, of_target, x[j], target[j]);
        span_gradient(s, gradient, 0, d);
    }
}

} // namespace

extern "C" void gpu_pair_forward(const struct gpu_pair *p, struct gpu_value out,
                                 cudaStream_t stream)
{
    if (p->count)
        GPU_LAUNCH(pair_losses, flat_grid(p->count), dim3(FLAT_THREADS), 0, stream, *p, out);
}

extern "C" void gpu_pair_backward(const struct gpu_pair *p, const float *dout,
                                  const struct gpu_gradient gradients[2], cudaStream_t stream)
{
    for (int i = 0; i < 2; i++) {
        struct gpu_pair pair = *p;
        if (i == 1 && p->loss == GPU_BINARY_CROSS_ENTROPY)
            pair.target = pair.x; /* whose slope is x alone: its values may be gone */
        if (gradients[i].at && p->count)
            GPU_LAUNCH(pair_slopes, flat_grid(p->count), dim3(FLAT_THREADS), 0, stream, pair, dout,
                       gradients[i], i == 1);
    }
}
