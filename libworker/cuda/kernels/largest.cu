#include "libworker/cuda/kernels/largest.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/grid.h"
#include "libworker/cuda/kernels/span.h"
#include "libworker/cuda/kernels/warp.h"

namespace
{

enum { THREADS = 256, ROWS = THREADS / WARP };

/* Of some elements, the largest and its number. */
struct best {
    float value;
    int64_t at; /* -1: there was none */
};

static __device__ __forceinline__ bool is_better(struct best a, struct best b)
{
    bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a.at < 0 || b.at < 0)
        return b.at < 0 && a.at >= 0;
    if (a_nan || b_nan)
        return a_nan && (!b_nan || a.at < b.at);
    return a.value > b.value || (a.value == b.value && a.at < b.at);
}

static __device__ __forceinline__ void best_note(struct best *b, float value, int64_t at)
{
    struct best other;
    other.value = value;
    other.at = at;
    if (is_better(other, *b))
        *b = other;
}

static __device__ __forceinline__ struct best best_none()
{
    struct best none;
    none.value = 0;
    none.at = -1;
    return none;
}

struct largest_args {
    struct gpu_largest l;
    struct gpu_value out;
    struct gpu_gradient dx;
    const float *dout; /* NULL: forward */
};

/* The host gives 0 for the largest of nothing. */
static __device__ __forceinline__ void best_put(const struct largest_args &a, int64_t result,
                                                struct best b)
{
    value_write(a.out, result, b.at < 0 ? 0.0f : b.value);
}

/* A thread for each result: its elements are `inner` apart. */
__global__ void largest_columns(struct largest_args a, struct divider inner)
{
    int64_t results = a.l.outer * a.l.inner, step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < results; i += step) {
        int64_t outer = divide(inner, i);
        int64_t first = outer * a.l.n * a.l.inner + i - outer * a.l.inner;
        struct best b = best_none();
        for (int64_t j = 0; j < a.l.n; j++)
            best_note(&b, value_read(a.l.x, first + j * a.l.inner), j);
        if (!a.dout)
            best_put(a, i, b);
        for (int64_t j = 0; a.dout && j < a.l.n; j++)
            gradient_put(a.dx, first + j * a.l.inner, j == b.at ? a.dout[i] : 0.0f);
    }
}

/* A warp for each result: its elements are side by side. */
__global__ void largest_rows(struct largest_args a)
{
    int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.y, first = row * a.l.n;
    int lane = (int)threadIdx.x;
    struct best b = best_none();
    if (row >= a.l.outer)
        return; /* the whole warp */
    for (int64_t j = lane; j < a.l.n; j += WARP)
        best_note(&b, value_read(a.l.x, first + j), j);
    GPU_UNROLL
    for (int bits = WARP / 2; bits > 0; bits /= 2) {
        float value = __shfl_xor_sync(0xffffffffu, b.value, bits);
        int64_t at = (int64_t)__shfl_xor_sync(0xffffffffu, (long long)b.at, bits);
        if (at >= 0)
            best_note(&b, value, at);
    }
    if (!a.dout && lane == 0)
        best_put(a, row, b);
    for (int64_t j = lane; a.dout && j < a.l.n; j += WARP)
        gradient_put(a.dx, first + j, j == b.at ? a.dout[row] : 0.0f);
}

void launch(const struct largest_args &a, cudaStream_t stream)
{
    int64_t results = a.l.outer * a.l.inner;
    if (!results)
        return;
    if (a.l.inner == 1) {
        GPU_LAUNCH(largest_rows, (unsigned)((results + ROWS - 1) / ROWS), dim3(WARP, ROWS), 0,
                   stream, a);
        return;
    }
    GPU_LAUNCH(largest_columns, grid_of(results, THREADS), THREADS, 0, stream, a,
               divider_of(a.l.inner));
}

} // namespace

extern "C" void gpu_largest_forward(const struct gpu_largest *largest, struct gpu_value out,
                                    cudaStream_t stream)
{
    struct largest_args a = {};
    a.l = *largest;
    a.out = out;
    launch(a, stream);
}

extern "C" void gpu_largest_backward(const struct gpu_largest *largest, struct gpu_gradient dx,
                                     const float *dout, cudaStream_t stream)
{
    struct largest_args a = {};
    a.l = *largest;
    a.dx = dx;
    a.dout = dout;
    launch(a, stream);
}
