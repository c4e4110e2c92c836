#include "libworker/cuda/kernels/rope.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/grid.h"
#include "libworker/cuda/kernels/span.h"

namespace
{

enum { THREADS = 256 };

struct frequencies {
    double of[ROPE_FREQUENCIES];
};

__global__ void fill_angles(struct gpu_angles a, struct frequencies frequencies, int64_t first,
                            struct divider count)
{
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.length * count.by;
         i += step) {
        int64_t position = divide(count, i), pair = i - position * count.by;
        double angle = (double)(a.past + position) * frequencies.of[pair];
        int64_t at = position * a.half + first + pair;
        a.cosines[at] = (float)(cos(angle) * a.amplitude);
        a.sines[at] = (float)(sin(angle) * a.amplitude);
    }
}

/* A row is cut into units: pairs of WIDTH elements in each of the heads, then what is after the
 * heads, WIDTH elements at a time. */
struct rope_args {
    struct gpu_rope r;
    struct gpu_value to, from;
    bool add;
    struct divider length, units, of_head; /* units of a row, and of a head */
    int64_t count;                         /* of all units */
};

static __device__ __forceinline__ struct span span_in(int64_t first, int count)
{
    struct span s;
    s.first = first;
    s.stride = 1;
    s.count = count;
    return s;
}

static __device__ __forceinline__ void part_put(const struct rope_args &a, struct span s,
                                                float x[SPAN])
{
    if (a.add) {
        float before[SPAN];
        span_read(s, a.to, 0, before);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            x[j] += before[j];
    }
    span_write(s, a.to, 0, x);
}

template <int WIDTH>
static __device__ __forceinline__ void pair_rotate(const struct rope_args &a, int64_t row,
                                                   int64_t unit)
{
    int64_t head = divide(a.of_head, unit), i = (unit - head * a.of_head.by) * WIDTH;
    int64_t at = row * a.r.width + head * 2 * a.r.half + i;
    int64_t position = row - divide(a.length, row) * a.length.by;
    position -= a.r.starts ? a.r.starts[row] : 0;
    struct span low = span_in(at, WIDTH), high = span_in(at + a.r.half, WIDTH);
    struct span angle = span_in(position * a.r.half + i, WIDTH);
    float x[SPAN], y[SPAN], c[SPAN], s[SPAN];
    span_read(low, a.from, 0, x);
    span_read(high, a.from, 0, y);
    span_read(angle, floats_value(a.r.cosines), 0, c);
    span_read(angle, floats_value(a.r.sines), 0, s);
    GPU_UNROLL
    for (int j = 0; j < WIDTH; j++) {
        float sine = a.r.back ? -s[j] : s[j], first = x[j] * c[j] - y[j] * sine;
        y[j] = y[j] * c[j] + x[j] * sine;
        x[j] = first;
    }
    part_put(a, low, x);
    part_put(a, high, y);
}

template <int WIDTH> __global__ void rotate(struct rope_args a)
{
    int64_t pairs = a.r.heads * a.of_head.by, step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.count; i += step) {
        int64_t row = divide(a.units, i), unit = i - row * a.units.by;
        if (unit < pairs) {
            pair_rotate<WIDTH>(a, row, unit);
            continue;
        }
        float x[SPAN];
        int64_t after = a.r.heads * 2 * a.r.half + (unit - pairs) * WIDTH;
        struct span rest = span_in(row * a.r.width + after, WIDTH);
        span_read(rest, a.from, 0, x);
        part_put(a, rest, x);
    }
}

} // namespace

extern "C" void gpu_rope_angles(const struct gpu_angles *angles, const double *of, int64_t first,
                                int64_t count, cudaStream_t stream)
{
    struct frequencies frequencies = {};
    for (int64_t i = 0; i < count; i++)
        frequencies.of[i] = of[i];
    if (angles->length && count)
        GPU_LAUNCH(fill_angles, grid_of(angles->length * count, THREADS), THREADS, 0, stream,
                   *angles, frequencies, first, divider_of(count));
}

extern "C" void gpu_rope_rotate(const struct gpu_rope *rope, struct gpu_value to, bool add,
                                struct gpu_value from, cudaStream_t stream)
{
    int64_t after = rope->width - rope->heads * 2 * rope->half;
    int64_t width = (rope->half | after | rope->width) % SPAN ? 1 : (int64_t)SPAN;
    int64_t units = rope->heads * rope->half / width + after / width;
    struct rope_args a = {*rope,
                          to,
                          from,
                          add,
                          divider_of(rope->length),
                          divider_of(units),
                          divider_of(rope->half / width),
                          rope->rows * units};
    if (!a.count)
        return;
    if (width == 1)
        GPU_LAUNCH(rotate<1>, grid_of(a.count, THREADS), THREADS, 0, stream, a);
    else
        GPU_LAUNCH(rotate<SPAN>, grid_of(a.count, THREADS), THREADS, 0, stream, a);
}
