#include "libworker/cuda/kernels/pool.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/span.h"

namespace
{

enum { POOL_THREADS = 256, POOL_BLOCKS_MAX = 1 << 20 };

/* An element's place: plane, row, column. */
struct place {
    int64_t plane, row, column;
};

struct pool_sides {
    struct divider row, plane; /* by a row's and a plane's elements */
};

static __device__ __forceinline__ struct place place_of(int64_t i, const struct pool_sides &sides)
{
    struct place p;
    p.plane = divide(sides.plane, i);
    int64_t rest = i - p.plane * sides.plane.by;
    p.row = divide(sides.row, rest);
    p.column = rest - p.row * sides.row.by;
    return p;
}

/* The part of window i along one side of the image that is inside: [from, to). */
struct reach {
    int64_t from, to;
};

static __device__ __forceinline__ struct reach reach_of(const struct gpu_pool &p, int64_t i,
                                                        int64_t size)
{
    int64_t from = i * p.stride - p.padding, to = from + p.kernel;
    struct reach r = {from < 0 ? 0 : from, to > size ? size : to};
    return r;
}

/* The element of the plane at `x` that is the window's maximum. */
static __device__ __forceinline__ int64_t largest_at(const struct gpu_pool &p, struct gpu_value x,
                                                     int64_t plane, struct reach y,
                                                     struct reach across)
{
    int64_t first = plane * p.height * p.width, best = y.from * p.width + across.from;
    float most = value_read(x, first + best);
    for (int64_t i = y.from; i < y.to; i++) {
        for (int64_t j = across.from; j < across.to; j++) {
            float value = value_read(x, first + i * p.width + j);
            if (value > most || (value != value && most == most)) {
                most = value;
                best = i * p.width + j;
            }
        }
    }
    return best;
}

static __device__ __forceinline__ float mean_of(const struct gpu_pool &p, struct gpu_value x,
                                                int64_t plane, struct reach y, struct reach across)
{
    float sum = 0;
    for (int64_t i = y.from; i < y.to; i++)
        for (int64_t j = across.from; j < across.to; j++)
            sum += value_read(x, (plane * p.height + i) * p.width + j);
    return sum / ((float)p.kernel * (float)p.kernel);
}

__global__ void pool_windows(struct gpu_pool p, struct pool_sides sides, struct gpu_value x,
                             struct gpu_value out)
{
    int64_t count = p.planes * p.out_height * p.out_width;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        struct place at = place_of(i, sides);
        struct reach y = reach_of(p, at.row, p.height), across = reach_of(p, at.column, p.width);
        float value = p.max ? value_read(x, at.plane * p.height * p.width +
                                                largest_at(p, x, at.plane, y, across))
                            : mean_of(p, x, at.plane, y, across);
        value_write(out, i, value);
    }
}

/* Windows along one side that an element is in: [from, to). */
static __device__ __forceinline__ struct reach windows_of(const struct gpu_pool &p, int64_t i,
                                                          int64_t windows)
{
    int64_t first = i + p.padding - p.kernel; /* the last place of a window that ends before i */
    struct reach r = {first < 0 ? 0 : first / p.stride + 1, (i + p.padding) / p.stride + 1};
    r.to = r.to > windows ? windows : r.to;
    return r;
}

/* What window (i, j) adds to the gradient of the element at `at`. */
static __device__ __forceinline__ float share_of(const struct gpu_pool &p, struct gpu_value x,
                                                 struct place at, int64_t i, int64_t j, float d)
{
    if (!p.max)
        return d * (1.0f / (float)(p.kernel * p.kernel));
    int64_t best = largest_at(p, x, at.plane, reach_of(p, i, p.height), reach_of(p, j, p.width));
    return best == at.row * p.width + at.column ? d : 0.0f;
}

__global__ void pool_elements(struct gpu_pool p, struct pool_sides sides, struct gpu_value x,
                              const float *dout, struct gpu_gradient dx)
{
    int64_t count = p.planes * p.height * p.width;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        struct place at = place_of(i, sides);
        struct reach rows = windows_of(p, at.row, p.out_height);
        struct reach columns = windows_of(p, at.column, p.out_width);
        float sum = dx.add ? dx.at[i] : 0.0f;
        for (int64_t r = rows.from; r < rows.to; r++)
            for (int64_t c = columns.from; c < columns.to; c++)
                sum +=
                    share_of(p, x, at, r, c, dout[(at.plane * p.out_height + r) * p.out_width + c]);
        dx.at[i] = sum;
    }
}

dim3 grid_of(int64_t count)
{
    int64_t blocks = (count + POOL_THREADS - 1) / POOL_THREADS;
    return dim3(blocks < POOL_BLOCKS_MAX ? (unsigned)blocks : (unsigned)POOL_BLOCKS_MAX);
}

} // namespace

extern "C" void gpu_pool2d_forward(const struct gpu_pool *p, struct gpu_value x,
                                   struct gpu_value out, cudaStream_t stream)
{
    struct pool_sides sides = {divider_of(p->out_width), divider_of(p->out_height * p->out_width)};
    int64_t count = p->planes * p->out_height * p->out_width;
    if (count)
        GPU_LAUNCH(pool_windows, grid_of(count), dim3(POOL_THREADS), 0, stream, *p, sides, x, out);
}

extern "C" void gpu_pool2d_backward(const struct gpu_pool *p, struct gpu_value x, const float *dout,
                                    struct gpu_gradient dx, cudaStream_t stream)
{
    struct pool_sides sides = {divider_of(p->width), divider_of(p->height * p->width)};
    int64_t count = p->planes * p->height * p->width;
    if (count)
        GPU_LAUNCH(pool_elements, grid_of(count), dim3(POOL_THREADS), 0, stream, *p, sides, x, dout,
                   dx);
}
