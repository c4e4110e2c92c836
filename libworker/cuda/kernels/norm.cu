#include "libworker/cuda/kernels/norm.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/columns.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/elements.h"
#include "libworker/cuda/kernels/rows.h"

namespace
{

enum {
    NORM_BLOCKS_MAX = 1024, /* of the backward pass: a fixed number, so that sums have fixed bits */
    NORM_ROWS_OF_BLOCK = 8,
    NORM_SHARED_MAX = 48 * 1024, /* what every device gives a block without being asked */
    CHANNEL_THREADS = 256,
};

/* The weight or bias of the span's elements. */
static __device__ __forceinline__ void vector_read(struct span s, const struct gpu_norm &n,
                                                   struct divider each, struct gpu_value vector,
                                                   int64_t row, float ret[SPAN])
{
    if (n.each == 1) {
        span_read(s, vector, row % n.groups * n.width, ret);
        return;
    }
    int64_t first = row % n.groups * divide(each, n.width);
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++) {
        ret[j] = j < s.count ? value_read(vector, first + divide(each, span_index(s, j))) : 0.0f;
    }
}

/* x = the sum of its parts, rounded to its type. A thread reads later what it writes here. */
static __device__ __forceinline__ void row_join(const struct gpu_norm &n, int64_t row)
{
    for (int64_t at = 0; at < n.width; at += span_step()) {
        struct span s = span_at(at, n.width);
        float x[SPAN], more[SPAN];
        span_read(s, n.parts[0], row * n.width, x);
        span_read(s, n.parts[1], row * n.width, more);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            x[j] += more[j];
        span_write(s, n.x, row * n.width, x);
    }
}

static __device__ __forceinline__ float row_mean(const struct gpu_norm &n, int64_t row, float *room)
{
    float sum = 0;
    for (int64_t at = 0; at < n.width; at += span_step()) {
        struct span s = span_at(at, n.width);
        float x[SPAN];
        span_read(s, n.x, row * n.width, x);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            sum += j < s.count ? x[j] : 0.0f;
    }
    return row_sum(sum, room) / (float)n.width;
}

/* 1 / the standard deviation from `mean`. */
static __device__ __forceinline__ float row_rstd(const struct gpu_norm &n, int64_t row, float mean,
                                                 float *room)
{
    float sum = 0;
    for (int64_t at = 0; at < n.width; at += span_step()) {
        struct span s = span_at(at, n.width);
        float x[SPAN];
        span_read(s, n.x, row * n.width, x);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            sum += j < s.count ? (x[j] - mean) * (x[j] - mean) : 0.0f;
    }
    return 1.0f / sqrtf(row_sum(sum, room) / (float)n.width + n.epsilon);
}

__global__ void norm_rows(struct gpu_norm n, struct gpu_value out, struct divider each)
{
    GPU_SHARED(float, room, ROWS_ROOM);
    for (int64_t row = rows_first(); row < n.rows; row += rows_step()) {
        if (n.parts[0].at)
            row_join(n, row);
        float mean = n.centred ? row_mean(n, row, room) : 0.0f;
        float rstd = row_rstd(n, row, mean, room);
        if (threadIdx.x == 0) {
            n.rstd[row] = rstd;
            if (n.centred)
                n.mean[row] = mean;
        }
        for (int64_t at = 0; at < n.width; at += span_step()) {
            struct span s = span_at(at, n.width);
            float x[SPAN], weight[SPAN], bias[SPAN] = {0};
            span_read(s, n.x, row * n.width, x);
            vector_read(s, n, each, n.weight, row, weight);
            if (n.bias.at)
                vector_read(s, n, each, n.bias, row, bias);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                x[j] = (x[j] - mean) * rstd * weight[j] + bias[j];
            span_write(s, out, row * n.width, x);
        }
    }
}

/* A row on the way back. */
struct row_slopes {
    float mean, rstd;
    float g, gx; /* means of g = dout * weight, and of g * the normal x */
};

static __device__ __forceinline__ struct row_slopes slopes_of(const struct gpu_norm &n,
                                                              const float *dout,
                                                              struct divider each, int64_t row,
                                                              float *room)
{
    struct row_slopes r = {n.centred ? n.mean[row] : 0.0f, n.rstd[row], 0, 0};
    for (int64_t at = 0; at < n.width; at += span_step()) {
        struct span s = span_at(at, n.width);
        float x[SPAN], dy[SPAN], weight[SPAN];
        span_read(s, n.x, row * n.width, x);
        span_read(s, floats_value(dout), row * n.width, dy);
        vector_read(s, n, each, n.weight, row, weight);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++) {
            float g = j < s.count ? dy[j] * weight[j] : 0.0f;
            r.g += g;
            r.gx += j < s.count ? g * ((x[j] - r.mean) * r.rstd) : 0.0f;
        }
    }
    row_sums(&r.g, &r.gx, room);
    r.g = n.centred ? r.g / (float)n.width : 0.0f;
    r.gx /= (float)n.width;
    return r;
}

/* The row's dx, if it is wanted; dout * normal x and dout are added to sums[2][width], of which a
 * thread always has the same columns. */
static __device__ __forceinline__ void row_back(const struct gpu_norm &n,
                                                const struct gpu_norm_gradients &d,
                                                struct divider each, int64_t row,
                                                struct row_slopes r, float *sums)
{
    for (int64_t at = 0; at < n.width; at += span_step()) {
        struct span s = span_at(at, n.width);
        float x[SPAN] = {0}, dy[SPAN], weight[SPAN] = {0};
        span_read(s, floats_value(d.dout), row * n.width, dy);
        if (n.x.at) {
            span_read(s, n.x, row * n.width, x);
            vector_read(s, n, each, n.weight, row, weight);
        }
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++) {
            float normal = (x[j] - r.mean) * r.rstd;
            if (sums && j < s.count) {
                sums[span_index(s, j)] += dy[j] * normal;
                sums[n.width + span_index(s, j)] += dy[j];
            }
            x[j] = (dy[j] * weight[j] - r.g - normal * r.gx) * r.rstd;
        }
        if (d.dx.at)
            span_gradient(s, d.dx, row * n.width, x);
    }
}

/* Blocks go through rows with a stride of the grid. Each leaves its sums in its part of the
 * partials. They are in shared memory meanwhile where they fit. */
__global__ void norm_rows_back(struct gpu_norm n, struct gpu_norm_gradients d, struct divider each,
                               bool shares)
{
    GPU_SHARED(float, room, ROWS_ROOM);
    GPU_SHARED_DYNAMIC(float, shared);
    float *partial = d.partials ? d.partials + 2 * n.width * blockIdx.x : NULL;
    float *sums = shares ? shared : partial;
    for (int64_t i = threadIdx.x; sums && i < 2 * n.width; i += blockDim.x)
        sums[i] = 0;
    __syncthreads();
    for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        struct row_slopes r = {0, 0, 0, 0}; /* x is missing where only the bias is trained */
        if (n.x.at)
            r = slopes_of(n, d.dout, each, row, room);
        row_back(n, d, each, row, r, sums);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; shares && i < 2 * n.width; i += blockDim.x)
        partial[i] = shared[i];
}

/* The partials' sums over the blocks, in order: columns below `width` are the weight's. */
__global__ void norm_gather(struct gpu_norm_gradients d, int64_t width, int blocks)
{
    GPU_SHARED(float, room, COLUMNS_STRIDES *COLUMNS_TILE);
    int64_t column = columns_own();
    float sum = 0;
    for (int b = (int)threadIdx.y; column < 2 * width && b < blocks; b += COLUMNS_STRIDES)
        sum += d.partials[2 * width * b + column];
    sum = columns_join(sum, room);
    if (threadIdx.y || column >= 2 * width)
        return;
    if (column < width && d.dweight.at)
        gradient_put(d.dweight, column, sum);
    if (column >= width && d.dbias.at)
        gradient_put(d.dbias, column - width, sum);
}

/* Group norm: a block sums one channel over the samples. */
__global__ void norm_channels(struct gpu_norm n, struct gpu_norm_gradients d, struct divider each)
{
    GPU_SHARED(float, room, ROWS_ROOM);
    int64_t channels = n.groups * n.width / n.each, channel = blockIdx.x;
    int64_t samples = n.rows / n.groups, group = channel * n.each / n.width;
    float along = 0, sum = 0;
    for (int64_t i = threadIdx.x; i < samples * n.each; i += blockDim.x) {
        int64_t sample = divide(each, i), row = sample * n.groups + group;
        int64_t at = (sample * channels + channel) * n.each + (i - sample * n.each);
        if (n.x.at)
            along += d.dout[at] * ((value_read(n.x, at) - n.mean[row]) * n.rstd[row]);
        sum += d.dout[at];
    }
    row_sums(&along, &sum, room);
    if (threadIdx.x)
        return;
    if (d.dweight.at)
        gradient_put(d.dweight, channel, along);
    if (d.dbias.at)
        gradient_put(d.dbias, channel, sum);
}

int blocks_back(int64_t rows)
{
    int64_t blocks = (rows + NORM_ROWS_OF_BLOCK - 1) / NORM_ROWS_OF_BLOCK;
    return blocks > NORM_BLOCKS_MAX ? (int)NORM_BLOCKS_MAX : (int)blocks;
}

/* A vector without any rows to sum over is 0, unless it is added to. */
void clear_vector(struct gpu_gradient gradient, int64_t count, cudaStream_t stream)
{
    if (gradient.at && !gradient.add)
        gpu_zero(gradient.at, (size_t)count * sizeof(float), stream);
}

} // namespace

extern "C" void gpu_norm_forward(const struct gpu_norm *n, struct gpu_value out,
                                 cudaStream_t stream)
{
    struct rows_shape shape = rows_shape_of(n->rows, n->width);
    struct divider each = divider_of(n->each);
    if (n->rows && n->width)
        GPU_LAUNCH(norm_rows, shape.grid, shape.block, 0, stream, *n, out, each);
}

extern "C" size_t gpu_norm_partials(int64_t rows, int64_t width)
{
    return 2 * (size_t)width * (size_t)blocks_back(rows);
}

extern "C" void gpu_norm_backward(const struct gpu_norm *n, const struct gpu_norm_gradients *d,
                                  cudaStream_t stream)
{
    struct divider each = divider_of(n->each);
    bool by_channel = n->groups > 1 || n->each > 1, wants = d->dweight.at || d->dbias.at;
    struct gpu_norm_gradients own = *d;
    own.partials = wants && !by_channel ? d->partials : NULL;
    int64_t channels = n->groups * n->width / n->each;
    size_t shared = own.partials ? 2 * (size_t)n->width * sizeof(float) : 0;
    bool shares = shared && shared <= NORM_SHARED_MAX - ROWS_ROOM * sizeof(float);
    if (n->rows == 0 || n->width == 0) {
        clear_vector(d->dweight, channels, stream);
        clear_vector(d->dbias, channels, stream);
        return;
    }
    unsigned grid = own.partials ? (unsigned)blocks_back(n->rows) : rows_blocks(n->rows);
    if (own.partials || d->dx.at)
        GPU_LAUNCH(norm_rows_back, dim3(grid), dim3(rows_warps(n->width) * 32), shares ? shared : 0,
                   stream, *n, own, each, shares);
    if (own.partials)
        GPU_LAUNCH(norm_gather, dim3(columns_blocks(2 * n->width)), columns_block(), 0, stream, own,
                   n->width, blocks_back(n->rows));
    if (wants && by_channel)
        GPU_LAUNCH(norm_channels, dim3((unsigned)channels), dim3(CHANNEL_THREADS), 0, stream, *n,
                   own, each);
}
