#include "libworker/cuda/kernels/swiglu.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/grid.h"
#include "libworker/cuda/kernels/sigmoid.h"
#include "libworker/cuda/kernels/span.h"

namespace
{

enum { THREADS = 256 };

struct swiglu_args {
    struct gpu_value x, out;
    struct gpu_gradient dx;
    const float *dout;    /* NULL: forward */
    int64_t inner, count; /* elements of a row of the result; units of all */
    struct divider units; /* of a row */
};

/* WIDTH elements side by side in a row of the result. */
template <int WIDTH>
static __device__ __forceinline__ void unit_forward(const struct swiglu_args &a, struct span gate,
                                                    struct span up, struct span out)
{
    float x[SPAN], y[SPAN];
    span_read(gate, a.x, 0, x);
    span_read(up, a.x, 0, y);
    GPU_UNROLL
    for (int j = 0; j < WIDTH; j++)
        y[j] *= share_of(x[j], sigmoid_of(x[j]).value);
    span_write(out, a.out, 0, y);
}

template <int WIDTH>
static __device__ __forceinline__ void unit_backward(const struct swiglu_args &a, struct span gate,
                                                     struct span up, struct span out)
{
    float x[SPAN], y[SPAN], d[SPAN];
    span_read(gate, a.x, 0, x);
    span_read(up, a.x, 0, y);
    span_read(out, floats_value(a.dout), 0, d);
    GPU_UNROLL
    for (int j = 0; j < WIDTH; j++) {
        struct gpu_sigmoid s = sigmoid_of(x[j]);
        float dgate = d[j] * y[j] * silu_slope(x[j], s);
        y[j] = d[j] * share_of(x[j], s.value);
        x[j] = dgate;
    }
    span_gradient(gate, a.dx, 0, x);
    span_gradient(up, a.dx, 0, y);
}

template <int WIDTH> __global__ void swiglu(struct swiglu_args a)
{
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.count; i += step) {
        int64_t row = divide(a.units, i), column = (i - row * a.units.by) * WIDTH;
        struct span gate, up, out;
        gate.stride = 1;
        gate.count = WIDTH;
        gate.first = row * 2 * a.inner + column;
        up = out = gate;
        up.first = gate.first + a.inner;
        out.first = row * a.inner + column;
        if (a.dout)
            unit_backward<WIDTH>(a, gate, up, out);
        else
            unit_forward<WIDTH>(a, gate, up, out);
    }
}

void launch(struct swiglu_args a, int64_t rows, cudaStream_t stream)
{
    int64_t width = a.inner % SPAN ? 1 : (int64_t)SPAN;
    a.units = divider_of(a.inner / width);
    a.count = rows * a.inner / width;
    unsigned grid = grid_of(a.count, THREADS);
    if (!a.count)
        return;
    if (width == 1)
        GPU_LAUNCH(swiglu<1>, grid, THREADS, 0, stream, a);
    else
        GPU_LAUNCH(swiglu<SPAN>, grid, THREADS, 0, stream, a);
}

} // namespace

extern "C" void gpu_swiglu_forward(int64_t rows, int64_t inner, struct gpu_value out,
                                   struct gpu_value x, cudaStream_t stream)
{
    struct swiglu_args a = {};
    a.x = x;
    a.out = out;
    a.inner = inner;
    launch(a, rows, stream);
}

extern "C" void gpu_swiglu_backward(const int64_t size[2], struct gpu_gradient dx,
                                    struct gpu_value x, const float *dout, cudaStream_t stream)
{
    struct swiglu_args a = {};
    a.x = x;
    a.dx = dx;
    a.dout = dout;
    a.inner = size[1];
    launch(a, size[0], stream);
}
