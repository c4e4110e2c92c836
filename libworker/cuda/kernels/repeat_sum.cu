/* Sums over what repeats. Where b moves along the innermost run, threads are side by side on it and
 * go down the rest; else the threads of a warp or a block share one result. */
#include "libworker/cuda/kernels/repeat.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/grid.h"
#include "libworker/cuda/kernels/repeat_runs.h"
#include "libworker/cuda/kernels/span.h"
#include "libworker/cuda/kernels/warp.h"

namespace
{

enum {
    LANES = 32,  /* threads side by side */
    STRIDES = 8, /* of a block of columns, and results of a block of short rows */
    THREADS = LANES * STRIDES,
    SHORT = 1024, /* elements of a row for which a warp is enough */
    FLUSH = 16,
    BLOCKS_WANTED = 1024,
    CHUNKS_MAX = 1024,
};

struct sum_args {
    struct runs results, repeats; /* where they are in x */
    struct gpu_value x, factor;
    struct gpu_target out;
    double divisor;
    double *partials;  /* [chunks, results]; NULL: one chunk, which is the sum */
    int64_t per_chunk; /* repeats */
};

/* Partial sums of f32 that become doubles before they are long. */
struct running {
    float part[SPAN];
    double sum[SPAN];
};

static __device__ __forceinline__ void running_begin(struct running *r)
{
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++) {
        r->part[j] = 0;
        r->sum[j] = 0;
    }
}

static __device__ __forceinline__ void running_flush(struct running *r)
{
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++) {
        r->sum[j] += (double)r->part[j];
        r->part[j] = 0;
    }
}

/* Elements side by side from `at` on, times their factors. */
static __device__ __forceinline__ void terms_read(const struct sum_args &a, int64_t at, int count,
                                                  float ret[SPAN])
{
    struct span s;
    s.first = at;
    s.stride = 1;
    s.count = count;
    span_read(s, a.x, 0, ret);
    if (!a.factor.at)
        return;
    float factor[SPAN];
    span_read(s, a.factor, 0, factor);
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++)
        ret[j] *= factor[j];
}

static __device__ __forceinline__ void result_put(const struct sum_args &a, int64_t result,
                                                  double sum)
{
    if (a.partials) {
        a.partials[(int64_t)blockIdx.y * a.results.count + result] = sum;
        return;
    }
    float value = (float)(sum / a.divisor);
    value_write(a.out.value, result, a.out.add ? value_read(a.out.value, result) + value : value);
}

/* WIDTH columns side by side for each thread of a row; the block's strides are added up in order. */
template <int WIDTH> __global__ void sum_columns(struct sum_args a)
{
    GPU_SHARED(double, room, STRIDES *LANES *WIDTH);
    int lane = (int)threadIdx.x, stride = (int)threadIdx.y;
    int64_t column = ((int64_t)blockIdx.x * LANES + lane) * WIDTH, within;
    int64_t first = (int64_t)blockIdx.y * a.per_chunk, end = first + a.per_chunk;
    end = end < a.repeats.count ? end : a.repeats.count;
    int count = column < a.results.count ? WIDTH : 0;
    int64_t base = count ? runs_at(a.results, column, &within) : 0;
    struct running r;
    running_begin(&r);
    int left = FLUSH;
    for (int64_t i = first + stride; count && i < end; i += STRIDES) {
        float x[SPAN];
        terms_read(a, base + runs_at(a.repeats, i, &within), count, x);
        GPU_UNROLL
        for (int j = 0; j < WIDTH; j++)
            r.part[j] += x[j];
        if (--left == 0) {
            running_flush(&r);
            left = FLUSH;
        }
    }
    running_flush(&r);
    GPU_UNROLL
    for (int j = 0; j < WIDTH; j++)
        room[(stride * LANES + lane) * WIDTH + j] = r.sum[j];
    __syncthreads();
    for (int i = stride * LANES + lane; i < LANES * WIDTH; i += THREADS) {
        int64_t result = (int64_t)blockIdx.x * LANES * WIDTH + i;
        double sum = 0;
        for (int k = 0; k < STRIDES; k++)
            sum += room[k * LANES * WIDTH + i];
        if (result < a.results.count)
            result_put(a, result, sum);
    }
}

/* Blocks of (32, 8) have a result for each warp, blocks of (256, 1) one result. A thread has WIDTH
 * elements side by side at a time. */
template <int WIDTH> __global__ void sum_rows(struct sum_args a)
{
    GPU_SHARED(double, room, WARPS_MAX);
    int64_t result = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, within;
    int64_t first = (int64_t)blockIdx.y * a.per_chunk, end = first + a.per_chunk;
    end = end < a.repeats.count ? end : a.repeats.count;
    bool real = result < a.results.count;
    int64_t base = real ? runs_at(a.results, result, &within) : 0;
    float part = 0;
    double sum = 0;
    int left = FLUSH / WIDTH;
    for (int64_t i = first + (int64_t)threadIdx.x * WIDTH; real && i < end;
         i += (int64_t)blockDim.x * WIDTH) {
        float x[SPAN];
        terms_read(a, base + runs_at(a.repeats, i, &within), WIDTH, x);
        GPU_UNROLL
        for (int j = 0; j < WIDTH; j++)
            part += x[j];
        if (--left == 0) {
            sum += (double)part;
            part = 0;
            left = FLUSH / WIDTH;
        }
    }
    sum += (double)part;
    if (blockDim.x == WARP)
        sum = warp_sum(sum);
    else
        sum = block_sum(sum, room);
    if (real && threadIdx.x == 0)
        result_put(a, result, sum);
}

/* The chunks' partial sums, in order. */
__global__ void sum_partials(struct sum_args a, int chunks)
{
    const double *partials = a.partials;
    a.partials = NULL;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.results.count;
         i += (int64_t)gridDim.x * THREADS) {
        double sum = 0;
        for (int k = 0; k < chunks; k++)
            sum += partials[k * a.results.count + i];
        result_put(a, i, sum);
    }
}

/* How a sum is cut: by its shape alone, so that its bits are the same everywhere. */
struct cut {
    bool columns, wide, is_short;
    int64_t blocks, chunks, per_chunk;
};

int64_t divided_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

struct cut cut_of(const struct gpu_repeat *repeat)
{
    struct runs results = runs_in_a(repeat, true), repeats = runs_in_a(repeat, false);
    struct cut c = {};
    c.columns = repeat->moves[repeat->n - 1];
    c.wide = repeat->size[repeat->n - 1] % SPAN == 0;
    c.is_short = !c.columns && repeats.count <= SHORT;
    if (c.columns)
        c.blocks = divided_up(results.count, (int64_t)(c.wide ? LANES * SPAN : LANES * 1));
    else
        c.blocks = c.is_short ? divided_up(results.count, STRIDES) : results.count;
    int64_t least = c.columns ? (int64_t)REPEAT_ROWS : (int64_t)16 * SHORT; /* repeats of a chunk */
    int64_t wanted = divided_up(BLOCKS_WANTED, c.blocks ? c.blocks : 1);
    int64_t most = divided_up(repeats.count, least);
    c.chunks = wanted < most ? wanted : most;
    c.chunks = c.chunks > CHUNKS_MAX ? (int64_t)CHUNKS_MAX : c.chunks;
    c.chunks = c.chunks < 1 ? 1 : c.chunks;
    c.per_chunk = divided_up(divided_up(repeats.count, c.chunks), SPAN) * SPAN;
    return c;
}

void launch_sum(const struct sum_args &a, const struct cut &c, cudaStream_t stream)
{
    dim3 grid((unsigned)c.blocks, (unsigned)c.chunks), warps(LANES, STRIDES), one(THREADS);
    if (c.columns && c.wide)
        GPU_LAUNCH(sum_columns<SPAN>, grid, warps, 0, stream, a);
    else if (c.columns)
        GPU_LAUNCH(sum_columns<1>, grid, warps, 0, stream, a);
    else if (c.wide)
        GPU_LAUNCH(sum_rows<SPAN>, grid, (c.is_short ? warps : one), 0, stream, a);
    else
        GPU_LAUNCH(sum_rows<1>, grid, (c.is_short ? warps : one), 0, stream, a);
}

} // namespace

extern "C" size_t gpu_repeat_sum_bytes(const struct gpu_repeat *repeat)
{
    struct cut c = cut_of(repeat);
    int64_t results = runs_in_a(repeat, true).count;
    return c.chunks > 1 ? (size_t)(c.chunks * results) * sizeof(double) : 0;
}

extern "C" void gpu_repeat_sum(const struct gpu_repeat *repeat, struct gpu_target out,
                               const struct gpu_repeat_terms *terms, cudaStream_t stream)
{
    struct cut c = cut_of(repeat);
    struct sum_args a = {runs_in_a(repeat, true),
                         runs_in_a(repeat, false),
                         terms->x,
                         terms->factor,
                         out,
                         terms->divisor,
                         NULL,
                         c.per_chunk};
    if (!a.results.count)
        return;
    if (c.chunks > 1)
        a.partials = (double *)terms->scratch;
    launch_sum(a, c, stream);
    if (c.chunks > 1)
        GPU_LAUNCH(sum_partials, grid_of(a.results.count, THREADS), THREADS, 0, stream, a,
                   (int)c.chunks);
}
