#include "libworker/cuda/kernels/curve.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/flat.h"
#include "libworker/cuda/kernels/sigmoid.h"

namespace
{

struct relu {
    float number;
    __device__ float value(float x) const
    {
        return x < 0 ? 0 : x;
    }
    __device__ float slope(float y, float dout) const
    {
        return y <= 0 ? 0 : dout;
    }
};

struct leaky_relu {
    float number;
    __device__ float value(float x) const
    {
        return x < 0 ? number * x : x;
    }
    __device__ float slope(float y, float dout) const
    {
        return y <= 0 ? number * dout : dout;
    }
};

struct scale {
    float number;
    __device__ float value(float x) const
    {
        return number * x;
    }
    __device__ float slope(float, float dout) const
    {
        return number * dout;
    }
};

struct tangent {
    float number;
    __device__ float value(float x) const
    {
        return tanhf(x);
    }
    __device__ float slope(float y, float dout) const
    {
        return dout * (1 - y * y);
    }
};

struct sigmoid {
    float number;
    __device__ float value(float x) const
    {
        return sigmoid_of(x).value;
    }
    __device__ float slope(float y, float dout) const
    {
        return dout * y * (1 - y);
    }
};

struct silu {
    float number;
    __device__ float value(float x) const
    {
        return share_of(x, sigmoid_of(x).value);
    }
    __device__ float slope(float x, float dout) const
    {
        return dout * silu_slope(x, sigmoid_of(x));
    }
};

/* 0.5 (1 + tanh(u)) is the sigmoid of 2 u. */
struct gelu {
    float number;
    static __device__ float twice_u(float x)
    {
        const float scale = 1.5957691216057308f, cubic = 0.044715f;
        return scale * (x + cubic * x * x * x);
    }
    __device__ float value(float x) const
    {
        return share_of(x, sigmoid_of(twice_u(x)).value);
    }
    __device__ float slope(float x, float dout) const
    {
        const float scale = 1.5957691216057308f, cubic = 0.044715f;
        struct gpu_sigmoid s = sigmoid_of(twice_u(x));
        float bend = scale * (x + 3 * cubic * x * x * x);
        return dout * (s.value + share_of(bend, s.value * s.rest));
    }
};

struct gelu_erf {
    float number;
    /* The share of a normal distribution that is below x. */
    static __device__ float below(float x)
    {
        const float root_half = 0.70710678118654752f;
        return 0.5f * erfcf(-x * root_half);
    }
    __device__ float value(float x) const
    {
        return share_of(x, below(x));
    }
    __device__ float slope(float x, float dout) const
    {
        const float root_two_pi_inverse = 0.39894228040143268f;
        float density = root_two_pi_inverse * expf(-0.5f * x * x);
        return dout * (below(x) + share_of(x, density));
    }
};

template <class Curve>
__global__ void curve_values(Curve curve, struct gpu_value out, struct gpu_value x, int64_t count)
{
    for (int64_t at = flat_first(); at < count; at += flat_step()) {
        struct span s = flat_span(at, count);
        float y[SPAN];
        span_read(s, x, 0, y);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            y[j] = curve.value(y[j]);
        span_write(s, out, 0, y);
    }
}

template <class Curve>
__global__ void curve_slopes(Curve curve, struct gpu_gradient dx, enum wk_dtype low,
                             struct gpu_value kept, const float *dout, int64_t count)
{
    struct gpu_value to = {dx.at, low};
    for (int64_t at = flat_first(); at < count; at += flat_step()) {
        struct span s = flat_span(at, count);
        float v[SPAN], d[SPAN];
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            v[j] = 0;
        if (kept.at)
            span_read(s, kept, 0, v);
        span_read(s, floats_value(dout), 0, d);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            d[j] = curve.slope(v[j], d[j]);
        if (low == WK_F32)
            span_gradient(s, dx, 0, d);
        else
            span_write(s, to, 0, d);
    }
}

struct arrays {
    struct gpu_value out, x, kept;
    struct gpu_gradient dx;
    const float *dout;
    bool backward;
};

template <class Curve>
void launch(const struct gpu_curve *c, const struct arrays &a, cudaStream_t stream)
{
    Curve curve = {c->number};
    if (a.backward)
        GPU_LAUNCH(curve_slopes<Curve>, flat_grid(c->count), FLAT_THREADS, 0, stream, curve, a.dx,
                   c->low, a.kept, a.dout, c->count);
    else
        GPU_LAUNCH(curve_values<Curve>, flat_grid(c->count), FLAT_THREADS, 0, stream, curve, a.out,
                   a.x, c->count);
}

void launch_kind(const struct gpu_curve *c, const struct arrays &a, cudaStream_t stream)
{
    if (!c->count)
        return;
    switch (c->kind) {
    case CURVE_RELU:
        return launch<relu>(c, a, stream);
    case CURVE_LEAKY_RELU:
        return launch<leaky_relu>(c, a, stream);
    case CURVE_SCALE:
        return launch<scale>(c, a, stream);
    case CURVE_TANH:
        return launch<tangent>(c, a, stream);
    case CURVE_SIGMOID:
        return launch<sigmoid>(c, a, stream);
    case CURVE_SILU:
        return launch<silu>(c, a, stream);
    case CURVE_GELU:
        return launch<gelu>(c, a, stream);
    case CURVE_GELU_ERF:
        return launch<gelu_erf>(c, a, stream);
    }
}

} // namespace

extern "C" void gpu_curve_forward(const struct gpu_curve *curve, struct gpu_value out,
                                  struct gpu_value x, cudaStream_t stream)
{
    struct arrays a = {};
    a.out = out;
    a.x = x;
    launch_kind(curve, a, stream);
}

extern "C" void gpu_curve_backward(const struct gpu_curve *curve, struct gpu_gradient dx,
                                   struct gpu_value kept, const float *dout, cudaStream_t stream)
{
    struct arrays a = {};
    a.dx = dx;
    a.kept = kept;
    a.dout = dout;
    a.backward = true;
    launch_kind(curve, a, stream);
}
