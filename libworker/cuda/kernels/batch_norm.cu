#include "libworker/cuda/kernels/batch_norm.h"

#include <math.h>

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/rows.h"

namespace
{

enum {
    SUM_THREADS = 256,
    SUM_BLOCKS = 1024, /* about this many: a number that depends on shapes alone */
    SPLITS_MAX = 64,
    SPLIT_ELEMENTS = 4096, /* of a channel, at least */
    NARROW_INNER = 32,     /* fewer elements side by side: a warp is across channels */
};

/* The sum of a channel is cut into splits. A warp is along a channel's elements, or across columns
 * of [channels, inner] where there are few of them. */
struct sums_shape {
    bool across;
    int splits;
    int64_t columns; /* partial sums of a split */
    struct divider inner;
};

struct sums_shape sums_shape_of(const struct gpu_channels *c)
{
    int64_t each = c->outer * c->inner, splits = (each + SPLIT_ELEMENTS - 1) / SPLIT_ELEMENTS;
    int64_t most = SUM_BLOCKS / (c->channels ? c->channels : 1) + 1;
    struct sums_shape s = {c->inner < NARROW_INNER, 1, c->channels, divider_of(c->inner)};
    if (s.across) {
        s.columns = c->channels * c->inner;
        most = SUM_BLOCKS * 32 / (s.columns ? s.columns : 1) + 1;
        splits = (c->outer + 63) / 64;
    }
    splits = splits < most ? splits : most;
    s.splits = (int)(splits < 1 ? 1 : splits > SPLITS_MAX ? (int64_t)SPLITS_MAX : splits);
    return s;
}

/* x - mean in two floats, as exact as in double. */
struct channel_mean {
    float high, low;
};

static __device__ __forceinline__ struct channel_mean mean_of(double mean)
{
    struct channel_mean m;
    m.high = (float)mean;
    m.low = (float)(mean - (double)m.high);
    return m;
}

static __device__ __forceinline__ float from_mean(float x, struct channel_mean m)
{
    return (x - m.high) - m.low;
}

/* n of the ranks together, at least 1. */
static __device__ __forceinline__ double count_of(const float *sums, int64_t channels)
{
    double n = (double)sums[channels];
    return n > 0 ? n : 1;
}

/* What is summed, each over two numbers at most. */
enum sum_kind {
    SUM_X,       /* x */
    SUM_POWERS,  /* x - mean, and its square */
    SUM_PRODUCTS /* dout, and dout * (x - mean) */
};

struct sums_args {
    struct gpu_channels c;
    struct sums_shape shape;
    enum sum_kind kind;
    struct gpu_statistics s; /* of the mean */
    const float *dout;
    double *partials; /* [2, splits, columns] */
};

static __device__ __forceinline__ struct channel_mean
channel_mean_of(const struct gpu_statistics &s, int64_t channels, int64_t c)
{
    if (!s.trains)
        return mean_of(s.mean ? (double)s.mean[c] : 0.0);
    return mean_of(s.sums ? (double)s.sums[c] / count_of(s.sums, channels) : 0.0);
}

static __device__ __forceinline__ void sums_add(const struct sums_args &a, int64_t at,
                                                struct channel_mean mean, double ret[2])
{
    if (a.kind == SUM_X) {
        ret[0] += (double)value_read(a.c.x, at);
        return;
    }
    float off = a.c.x.at ? from_mean(value_read(a.c.x, at), mean) : 0.0f,
          dy = a.kind == SUM_PRODUCTS ? a.dout[at] : 1.0f;
    ret[0] += a.kind == SUM_PRODUCTS ? (double)dy : (double)off;
    ret[1] += a.kind == SUM_PRODUCTS ? (double)dy * (double)off : (double)off * (double)off;
}

static __device__ __forceinline__ void partial_put(const struct sums_args &a, int64_t column,
                                                   const double sums[2])
{
    double *to = a.partials + (int64_t)blockIdx.y * a.shape.columns + column;
    to[0] = sums[0];
    to[(int64_t)a.shape.splits * a.shape.columns] = sums[1];
}

/* A block has a split of a channel. */
__global__ void channel_sums_along(struct sums_args a)
{
    GPU_SHARED(double, room, 32);
    int64_t channel = blockIdx.x, each = a.c.outer * a.c.inner;
    struct channel_mean mean = channel_mean_of(a.s, a.c.channels, channel);
    double sums[2] = {0, 0};
    for (int64_t i = (int64_t)blockIdx.y * SUM_THREADS + threadIdx.x; i < each;
         i += (int64_t)a.shape.splits * SUM_THREADS) {
        int64_t outer = divide(a.shape.inner, i);
        int64_t at = (outer * a.c.channels + channel) * a.c.inner + (i - outer * a.c.inner);
        sums_add(a, at, mean, sums);
    }
    sums[0] = block_sum_double(sums[0], room);
    sums[1] = block_sum_double(sums[1], room);
    if (threadIdx.x == 0)
        partial_put(a, channel, sums);
}

/* A block has a split of 32 columns, and 8 strides of rows, whose sums the first adds up. */
__global__ void channel_sums_across(struct sums_args a)
{
    GPU_SHARED(double, room, 2 * SUM_THREADS);
    int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x;
    double sums[2] = {0, 0};
    if (column < a.shape.columns) {
        struct channel_mean mean =
            channel_mean_of(a.s, a.c.channels, divide(a.shape.inner, column));
        for (int64_t row = (int64_t)blockIdx.y * 8 + threadIdx.y; row < a.c.outer;
             row += (int64_t)a.shape.splits * 8)
            sums_add(a, row * a.shape.columns + column, mean, sums);
    }
    unsigned own = threadIdx.y * 32 + threadIdx.x;
    room[own] = sums[0];
    room[SUM_THREADS + own] = sums[1];
    __syncthreads();
    if (threadIdx.y || column >= a.shape.columns)
        return;
    for (unsigned y = 1; y < 8; y++) {
        sums[0] += room[y * 32 + threadIdx.x];
        sums[1] += room[SUM_THREADS + y * 32 + threadIdx.x];
    }
    partial_put(a, column, sums);
}

/* Sum `which` of a channel, over the splits and, where there are several, its columns. */
static __device__ __forceinline__ double channel_sum(const struct sums_args &a, int which,
                                                     int64_t channel)
{
    int64_t each = a.shape.columns / a.c.channels;
    const double *from = a.partials + (int64_t)which * a.shape.splits * a.shape.columns;
    double sum = 0;
    for (int split = 0; split < a.shape.splits; split++)
        for (int64_t i = 0; i < each; i++)
            sum += from[split * a.shape.columns + channel * each + i];
    return sum;
}

__global__ void channel_sums_end(struct sums_args a, float *sums)
{
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c < a.c.channels)
        sums[c] = (float)channel_sum(a, a.kind == SUM_POWERS, c);
    if (c == a.c.channels && a.kind == SUM_X)
        sums[c] = (float)(a.c.outer * a.c.inner);
}

/* The mean moves with the sum and with n: dmean = -2 sum(x - mean) dsquares, over this rank's x. */
__global__ void squares_back_end(struct sums_args a, struct gpu_squares_gradients g)
{
    GPU_SHARED(double, room, 32);
    double n = count_of(g.sums, a.c.channels), dn = 0;
    for (int64_t c = threadIdx.x; c < a.c.channels; c += blockDim.x) {
        double dmean = -2 * channel_sum(a, 0, c) * (double)g.dsquares[c];
        dn -= dmean * (double)g.sums[c] / (n * n);
        gradient_put(g.dsums, c, (float)(dmean / n));
    }
    dn = block_sum_double(dn, room);
    if (threadIdx.x == 0)
        gradient_put(g.dsums, a.c.channels, (float)dn);
}

static __device__ __forceinline__ double element_or(const float *vector, int64_t i, double missing)
{
    return vector ? (double)vector[i] : missing;
}

static __device__ __forceinline__ double rstd_of(const struct gpu_statistics &s, int64_t channels,
                                                 int64_t c)
{
    double variance = element_or(s.trains ? s.squares : s.variance, c, 1);
    if (s.trains && s.sums)
        variance /= count_of(s.sums, channels);
    return 1 / sqrt(variance + (double)s.epsilon);
}

/* With r = rstd: dmean = -sum(dy) w r, dvariance = -sum(dy (x - mean)) w r^3 / 2. Both are
 * quotients by n. */
__global__ void batch_norm_back_end(struct sums_args a, struct gpu_batch_norm_gradients g)
{
    GPU_SHARED(double, room, 32);
    double n = a.s.sums ? count_of(a.s.sums, a.c.channels) : 1, dn = 0;
    for (int64_t c = threadIdx.x; c < a.c.channels; c += blockDim.x) {
        double r = rstd_of(a.s, a.c.channels, c), weight = element_or(a.s.weight, c, 1);
        double dy = channel_sum(a, 0, c), along = channel_sum(a, 1, c);
        double dmean = -dy * weight * r, dvariance = -along * weight * r * r * r / 2;
        double mean = element_or(a.s.sums, c, 0) / n, square = element_or(a.s.squares, c, 0);
        dn -= (dmean * mean + dvariance * square / n) / n;
        if (g.dweight.at)
            gradient_put(g.dweight, c, (float)(along * r));
        if (g.dbias.at)
            gradient_put(g.dbias, c, (float)dy);
        if (g.dsums.at)
            gradient_put(g.dsums, c, (float)(dmean / n));
        if (g.dsquares.at)
            gradient_put(g.dsquares, c, (float)(dvariance / n));
    }
    dn = block_sum_double(dn, room);
    if (threadIdx.x == 0 && g.dsums.at)
        gradient_put(g.dsums, a.c.channels, (float)dn);
}

/* Of each channel: out = (value - mean) * scale + shift. */
struct channel_line {
    float high, low, scale, shift;
};

__global__ void channel_lines(struct gpu_statistics s, int64_t channels, bool back,
                              struct channel_line *lines)
{
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels)
        return;
    struct channel_mean mean = channel_mean_of(s, channels, c);
    struct channel_line line = {mean.high, mean.low, 0, 0};
    line.scale = (float)(rstd_of(s, channels, c) * element_or(s.weight, c, 1));
    line.shift = (float)element_or(s.bias, c, 0);
    if (back)
        line.high = line.low = line.shift = 0;
    lines[c] = line;
}

__global__ void squares_lines(const float *sums, const float *dsquares, int64_t channels,
                              struct channel_line *lines)
{
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels)
        return;
    struct channel_mean mean = mean_of((double)sums[c] / count_of(sums, channels));
    struct channel_line line = {mean.high, mean.low, 2 * dsquares[c], 0};
    lines[c] = line;
}

struct apply_args {
    int64_t outer, channels, width; /* width: channels * inner */
    struct divider inner;
    struct gpu_value from; /* missing: only shifts, which are `shifts` */
    const float *shifts;
    const struct channel_line *lines;
    struct gpu_value out; /* or dx */
    struct gpu_gradient dx;
};

/* Rows of all channels: threadIdx.y and blockIdx.y are rows, x is along them. */
__global__ void channel_apply(struct apply_args a)
{
    for (int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; row < a.outer;
         row += (int64_t)gridDim.y * blockDim.y) {
        for (int64_t at = blockIdx.x * span_step(); at < a.width; at += gridDim.x * span_step()) {
            struct span s = span_at(at, a.width);
            float x[SPAN] = {0};
            if (a.from.at)
                span_read(s, a.from, row * a.width, x);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++) {
                if (j >= s.count)
                    continue;
                int64_t c = divide(a.inner, span_index(s, j));
                if (!a.from.at) {
                    x[j] = a.shifts[c];
                    continue;
                }
                struct channel_line line = a.lines[c];
                x[j] = ((x[j] - line.high) - line.low) * line.scale + line.shift;
            }
            if (a.dx.at)
                span_gradient(s, a.dx, row * a.width, x);
            else
                span_write(s, a.out, row * a.width, x);
        }
    }
}

__global__ void running_next(struct gpu_running r, float *next)
{
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= r.channels)
        return;
    double n = (double)r.sums[r.channels], less = n > 1 ? n - 1 : 1;
    double now = r.variance ? (double)r.squares[c] / less : (double)r.sums[c] / (n > 0 ? n : 1);
    double step = n > 0 ? (double)r.momentum * (now - (double)r.running[c]) : 0;
    next[c] = (float)((double)r.running[c] + step);
}

dim3 vector_blocks(int64_t count)
{
    return dim3((unsigned)((count + SUM_THREADS - 1) / SUM_THREADS));
}

/* Its partials fill the scratch memory. */
struct sums_args sums_args_of(const struct gpu_channels *c, enum sum_kind kind)
{
    struct sums_args a = {};
    a.c = *c;
    a.shape = sums_shape_of(c);
    a.kind = kind;
    a.s.trains = true;
    a.partials = (double *)c->scratch;
    return a;
}

void sums_launch(const struct sums_args *a, cudaStream_t stream)
{
    unsigned splits = (unsigned)a->shape.splits;
    if (a->shape.across)
        GPU_LAUNCH(channel_sums_across, dim3((unsigned)((a->shape.columns + 31) / 32), splits),
                   dim3(32, 8), 0, stream, *a);
    else
        GPU_LAUNCH(channel_sums_along, dim3((unsigned)a->c.channels, splits), dim3(SUM_THREADS), 0,
                   stream, *a);
}

struct channel_line *lines_in(const struct gpu_channels *c)
{
    return (struct channel_line *)c->scratch;
}

/* out or dx of each element, from `from` by the lines in the scratch memory. */
struct apply_args apply_args_of(const struct gpu_channels *c, struct gpu_value from)
{
    struct apply_args a = {};
    a.outer = c->outer;
    a.channels = c->channels;
    a.width = c->channels * c->inner;
    a.inner = divider_of(c->inner);
    a.from = from;
    a.lines = lines_in(c);
    return a;
}

void apply_launch(struct apply_args a, cudaStream_t stream)
{
    unsigned x = 32;
    while (x < SUM_THREADS && x * SPAN < a.width)
        x *= 2;
    unsigned y = SUM_THREADS / x;
    int64_t along = (a.width + x * SPAN - 1) / (x * SPAN), rows = (a.outer + y - 1) / y;
    if (a.outer && a.width)
        GPU_LAUNCH(channel_apply, dim3(rows_blocks(along), rows > 65535 ? 65535 : (unsigned)rows),
                   dim3(x, y), 0, stream, a);
}

struct gpu_value value_of(const float *at)
{
    struct gpu_value value = {(void *)(uintptr_t)at, WK_F32};
    return value;
}

} // namespace

extern "C" size_t gpu_channels_bytes(const struct gpu_channels *c)
{
    struct sums_shape s = sums_shape_of(c);
    size_t sums = 2 * (size_t)s.splits * (size_t)s.columns * sizeof(double);
    size_t lines = (size_t)c->channels * sizeof(struct channel_line);
    return sums > lines ? sums : lines;
}

extern "C" void gpu_channels_sums(const struct gpu_channels *c, float *sums, cudaStream_t stream)
{
    struct sums_args a = sums_args_of(c, SUM_X);
    sums_launch(&a, stream);
    GPU_LAUNCH(channel_sums_end, vector_blocks(c->channels + 1), dim3(SUM_THREADS), 0, stream, a,
               sums);
}

extern "C" void gpu_channels_sums_back(const struct gpu_channels *c, const float *dsums,
                                       struct gpu_gradient dx, cudaStream_t stream)
{
    struct apply_args a = apply_args_of(c, value_of(NULL));
    a.shifts = dsums;
    a.dx = dx;
    apply_launch(a, stream);
}

extern "C" void gpu_channels_squares(const struct gpu_channels *c, const float *sums,
                                     float *squares, cudaStream_t stream)
{
    struct sums_args a = sums_args_of(c, SUM_POWERS);
    a.s.sums = sums;
    sums_launch(&a, stream);
    GPU_LAUNCH(channel_sums_end, vector_blocks(c->channels), dim3(SUM_THREADS), 0, stream, a,
               squares);
}

extern "C" void gpu_channels_squares_back(const struct gpu_channels *c,
                                          const struct gpu_squares_gradients *g,
                                          cudaStream_t stream)
{
    if (g->dsums.at) {
        struct sums_args a = sums_args_of(c, SUM_POWERS);
        a.s.sums = g->sums;
        sums_launch(&a, stream);
        GPU_LAUNCH(squares_back_end, dim3(1), dim3(SUM_THREADS), 0, stream, a, *g);
    }
    if (!g->dx.at)
        return;
    GPU_LAUNCH(squares_lines, vector_blocks(c->channels), dim3(SUM_THREADS), 0, stream, g->sums,
               g->dsquares, c->channels, lines_in(c));
    struct apply_args a = apply_args_of(c, c->x);
    a.dx = g->dx;
    apply_launch(a, stream);
}

extern "C" void gpu_batch_norm(const struct gpu_channels *c, const struct gpu_statistics *s,
                               struct gpu_value out, cudaStream_t stream)
{
    struct apply_args a = apply_args_of(c, c->x);
    a.out = out;
    GPU_LAUNCH(channel_lines, vector_blocks(c->channels), dim3(SUM_THREADS), 0, stream, *s,
               c->channels, false, lines_in(c));
    apply_launch(a, stream);
}

extern "C" void gpu_batch_norm_back(const struct gpu_channels *c, const struct gpu_statistics *s,
                                    const struct gpu_batch_norm_gradients *g, cudaStream_t stream)
{
    struct sums_args a = sums_args_of(c, SUM_PRODUCTS);
    a.s = *s;
    a.dout = g->dout;
    sums_launch(&a, stream);
    GPU_LAUNCH(batch_norm_back_end, dim3(1), dim3(SUM_THREADS), 0, stream, a, *g);
    if (!g->dx.at)
        return;
    GPU_LAUNCH(channel_lines, vector_blocks(c->channels), dim3(SUM_THREADS), 0, stream, *s,
               c->channels, true, lines_in(c));
    struct apply_args back = apply_args_of(c, value_of(g->dout));
    back.dx = g->dx;
    apply_launch(back, stream);
}

extern "C" void gpu_batch_norm_running(const struct gpu_running *r, float *next,
                                       cudaStream_t stream)
{
    GPU_LAUNCH(running_next, vector_blocks(r->channels), dim3(SUM_THREADS), 0, stream, *r, next);
}
