#include "libworker/cuda/kernels/repeat.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/flat.h"
#include "libworker/cuda/kernels/repeat_runs.h"

namespace
{

struct sum_of_two {
    static __device__ float of(float, float a, float b)
    {
        return a + b;
    }
};

struct difference {
    static __device__ float of(float, float a, float b)
    {
        return a - b;
    }
};

struct product {
    static __device__ float of(float, float a, float b)
    {
        return a * b;
    }
};

struct share {
    static __device__ float of(float number, float, float b)
    {
        return number * b;
    }
};

/* b's elements for a span of a's: side by side, one for all, or each where it is. */
static __device__ __forceinline__ void repeat_read(const struct runs &r, struct span s,
                                                   struct gpu_value b, float ret[SPAN])
{
    int64_t within, at = runs_at(r, s.first, &within), last = r.n - 1;
    if (within + s.count <= r.size[last].by && r.stride[last]) {
        struct span side = s;
        side.first = at;
        span_read(side, b, 0, ret);
    } else if (within + s.count <= r.size[last].by) {
        float one = s.count ? value_read(b, at) : 0.0f;
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            ret[j] = one;
    } else {
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            ret[j] = j < s.count ? value_read(b, runs_at(r, s.first + j, &within)) : 0.0f;
    }
}

template <class Pair>
__global__ void map_values(struct runs r, struct gpu_target out, struct gpu_pair p)
{
    for (int64_t at = flat_first(); at < r.count; at += flat_step()) {
        struct span s = flat_span(at, r.count);
        float a[SPAN], b[SPAN];
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            a[j] = 0;
        if (p.a.at)
            span_read(s, p.a, 0, a);
        repeat_read(r, s, p.b, b);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            a[j] = Pair::of(p.number, a[j], b[j]);
        if (out.add) {
            span_read(s, out.value, 0, b);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                a[j] += b[j];
        }
        span_write(s, out.value, 0, a);
    }
}

template <class Pair>
void launch_map(const struct runs &r, struct gpu_target out, const struct gpu_pair *p,
                cudaStream_t stream)
{
    if (r.count)
        GPU_LAUNCH(map_values<Pair>, flat_grid(r.count), FLAT_THREADS, 0, stream, r, out, *p);
}

} // namespace

extern "C" struct gpu_repeat gpu_repeat_of(int dims, const int64_t *size, const bool *moves)
{
    struct gpu_repeat r = {};
    for (int i = 0; i < dims; i++) {
        if (size[i] == 1)
            continue;
        if (r.n && r.moves[r.n - 1] == moves[i]) {
            r.size[r.n - 1] *= size[i];
            continue;
        }
        r.moves[r.n] = moves[i];
        r.size[r.n++] = size[i];
    }
    if (!r.n) {
        r.moves[0] = true;
        r.size[r.n++] = 1;
    }
    return r;
}

extern "C" void gpu_repeat_map(const struct gpu_repeat *repeat, struct gpu_target out,
                               const struct gpu_pair *pair, cudaStream_t stream)
{
    struct runs r = runs_of_b(repeat);
    switch (pair->kind) {
    case PAIR_ADD:
        return launch_map<sum_of_two>(r, out, pair, stream);
    case PAIR_SUBTRACT:
        return launch_map<difference>(r, out, pair, stream);
    case PAIR_MULTIPLY:
        return launch_map<product>(r, out, pair, stream);
    case PAIR_SHARE:
        return launch_map<share>(r, out, pair, stream);
    }
}
